"""Rules of error masking for code agents, against hand-made labels and against mistakes that their makers know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from noria.cli import app
from noria.core.proofs import Flawed
from noria.core.recipe_phases import ErrorRule
from noria.core.types import Turn
from noria.envs import microswe
from noria.envs.microswe.mistakes import UNMENDED, WRONG_CALL, WRONG_EDIT, mistakes
from noria.envs.microswe.trusted import TrustedRunner
from noria.stages.masking import CODE, DEFAULT, RULES, Labelled, errors, habitual, measure
from noria.stages.masking.commands import understood
from noria.tokens.calls import render_call

ANNOTATED = Path(__file__).parent / "annotated.jsonl"
VIEW, TEST, SUBMIT = render_call("view"), render_call("test"), render_call("submit")


def sh(command: str) -> str:
    return render_call("sh", command=command)


def edit(old: str, new: str, path: str = "a.py") -> str:
    return render_call("edit", path=path, old=old, new=new)


def found(rule: str, *turns: tuple[str, str]) -> list[int]:
    return [k for k, wrong in enumerate(errors([Turn(*turn) for turn in turns], [rule])) if wrong]


READ = (render_call("read", path="a.py"), "def f(x):\n    y = x\n    return y")
FAILS, WORSE, PASSES = ((sh("pytest -q"), said) for said in ("1 failed\n(exit 1)", "3 failed\n(exit 1)", "4 passed"))


@pytest.fixture(scope="module")
def world() -> Any:
    runner: Any = TrustedRunner()
    return microswe.build(microswe.Config(type="microswe"), runner)


def annotated() -> list[Labelled]:
    lines = [json.loads(line)["turns"] for line in ANNOTATED.read_text("utf-8").splitlines()]
    return [
        Labelled(str(k), tuple(Turn(said, seen) for said, seen, _ in line), tuple(label for _, _, label in line))
        for k, line in enumerate(lines)
    ]


def test_a_recipe_can_name_every_rule() -> None:
    assert get_args(ErrorRule) == tuple(RULES) and set(CODE) < set(RULES) and DEFAULT == ("refused",)


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("cd src && python -m pytest -q tests/test_a.py -k 'x and y' 2>&1 | tail -n 5", "tests looks"),
        ("PYTHONPATH=. timeout 60 tox -e py311", "tests"),
        ("npm run test -- --grep a", "tests"),
        ("go test ./... && go vet ./...", "tests runs"),
        ("make -j2 check", "tests"),
        ("grep -rn 'pytest' . | head", "looks"),
        ("git log -p | head; git diff", "looks"),
        ("python - <<'E'\nimport os\nos.system('rm -rf x')\nE", "runs"),
        ("sed -i 's/a/b/' x.py", "changes"),
        ("cat > x.py <<EOF\npytest\nEOF", "changes"),
        ("echo done > /dev/null", ""),
        ("echo x > y", "changes"),
        ("ls 2>/dev/null", "looks"),
        ("grep '' a 2>&1", "looks"),
        ("python run.py > out.txt", "runs"),
        ("echo \"it's", ""),
    ],
)
def test_commands_are_told_by_their_words(command: str, what: str) -> None:
    told = understood(command)
    names = ("tests", "runs", "looks", "changes")
    assert [name for name in names if getattr(told, name)] == what.split()


def test_a_command_says_what_it_writes() -> None:
    assert understood("cat > a/b.py <<'EOF'\nx = 1\ny = 2\nEOF").written == ("a/b.py", "x = 1\ny = 2\n")
    assert understood("cat > b <<EOF\nEOF").written == ("b", "")
    assert understood("sed -i 's/a - b/a + b/' m.c").substituted == ("m.c", "a - b", "a + b")
    assert understood("git checkout -- a.py && git stash").restored == ("a.py", ".")


def test_diagnostics_are_no_errors() -> None:
    same = (sh("python repro.py"), "Traceback (most recent call last):\nValueError\n(exit 1)")
    turns = [
        READ, FAILS, FAILS, (sh("grep -rn zq ."), "(exit 1)"), (sh("ls docs"), "ls: no 'docs'\n(exit 2)"), same, same,
        (edit("    y = x\n", "    y = x\n    print(y)\n"), "ok"), (sh("python a.py"), "3"),
        (edit("    print(y)\n", ""), "ok"), (edit("y = x", "y = x + 1"), "ok"), PASSES, ("Done.", ""),
    ]  # fmt: skip
    assert errors([Turn(*turn) for turn in turns], CODE) == [False] * len(turns)
    printed = (sh("cargo test"), "error: could not compile\nerror[E0308]: mismatched types\n(exit 101)")
    assert found("refused", printed, (sh("x"), "error: no time is left for commands")) == [1]


def test_commands_that_could_not_do_their_work() -> None:
    assert found(
        "misrun", (sh("pyhton a.py"), "bash: line 1: pyhton: command not found\n(exit 127)"),
        (sh("which pyhton"), "(exit 1)"), (sh("cat b.py"), "cat: b.py: No such file or directory\n(exit 1)"),
        (sh("python b.py"), "python: can't open file 'b.py'\n(exit 2)"),
        (sh("pytest --quick"), "ERROR: usage:\npytest: error: unrecognized arguments: --quick\n(exit 4)"),
        (sh("pytest -q"), "ERROR: usage:\npytest: error: unrecognized arguments: --cov=a\n(exit 4)"),
        (sh("grep 'def a.py"), "bash: unexpected EOF while looking for matching `''\n(exit 2)"),
        (sh("python a.py"), "Traceback (most recent call last):\nFileNotFoundError: No such file\n(exit 1)"),
    ) == [0, 2, 3, 4, 6]  # fmt: skip


def test_edits_that_are_taken_back_or_written_anew() -> None:
    wrong, back = (edit("y = x", "y = -x"), "ok"), (edit("y = -x", "y = x"), "ok")
    assert found("reverted", READ, wrong, FAILS, back, (edit("y = x", "y = 2"), "ok")) == [1]
    assert found("reverted", READ, wrong, FAILS, (sh("git checkout a.py"), "ok")) == [1]
    reset = ('<call name="reset"></call>', "ok")
    assert found("reverted", READ, wrong, FAILS, reset, wrong, FAILS, reset, (edit("y = x", "y = 2"), "ok")) == [1, 4]
    assert found("reverted", READ, wrong, ('<call name="reset"></call>', "error: no tool reset")) == []
    assert found("reverted", READ, wrong, back, wrong, back) == [1, 3]
    whole = (render_call("write", path="a.py", text=READ[1]), "ok")
    assert found("reverted", READ, wrong, (edit("return y", "return y, y"), "ok"), whole) == [1, 2]
    better = (edit("y = -x", "y = x * 2"), "ok")
    assert found("corrected", READ, wrong, FAILS, better, PASSES) == [1]
    assert found("corrected", READ, wrong, PASSES, better, PASSES) == []  # it was found good before
    assert found("corrected", READ, wrong, better, PASSES) == []  # nobody had looked
    assert found("corrected", READ, wrong, FAILS, (edit("return y", "return y + 1"), "ok"), PASSES) == []
    assert found("worsened", READ, FAILS, wrong, WORSE) == [2] and found("worsened", READ, WORSE, wrong, FAILS) == []
    assert found("idle", READ, (edit("y = x", "y = x"), "ok"), wrong) == [1]


def test_edits_that_break_a_file() -> None:
    assert found("broken_syntax", READ, (edit("y = x", "y = (x"), "ok"), (edit("y = (x", "y = x"), "ok")) == [1]
    unseen = (edit("y = x", "y = (x"), "ok")
    assert found("broken_syntax", unseen, (sh("pytest"), '  File "/w/a.py", line 2\nSyntaxError: x\n(exit 1)')) == [0]
    assert found("broken_syntax", unseen, (sh("pytest"), '  File "/w/b.py", line 2\nSyntaxError: x\n(exit 1)')) == []
    script = edit("a", "b", "a.js")
    assert found("broken_syntax", (script, "ok"), (sh("npm test"), "/w/a.js:2\nSyntaxError: no\n(exit 1)")) == [0]


def test_what_fails_alike_and_what_is_handed_in_all_the_same() -> None:
    refused = (edit("q", "r"), "error: old must stand in a.py once: it is there 0 times")
    assert found("repeated", refused, refused, READ, refused) == [1, 3]
    assert found("repeated", refused, (edit("y = x", "y = q"), "ok"), refused) == []
    assert found("unready", READ, FAILS, ("Done.", "")) == [2] and found("unready", READ, PASSES, ("Done.", "")) == []
    assert found("unready", FAILS, (edit("y = x", "y = 2"), "ok"), (SUBMIT, "")) == []


def test_the_annotated_set() -> None:
    samples = annotated()
    whole = measure(samples, CODE)
    assert (whole["turns"], whole["errors"], whole["masked"]) == (235, 34, 26)
    assert whole["precision"]["value"] == 1.0 and whole["recall"]["value"] == pytest.approx(26 / 34, abs=1e-4)
    assert all(measure(samples, [rule])["precision"]["value"] in (1.0, None) for rule in CODE)


def test_the_worlds_own_judgement_by_hand(world: Any) -> None:
    task = world.tasks("train", 1, 3)[0]
    gold, app = task.data["gold"].split("\n"), task.data["app"].split("\n")
    (line,) = [k for k, (have, want) in enumerate(zip(app, gold, strict=True), 1) if have != want]
    right = render_call("edit", line=str(line), new=gold[line - 1].strip())
    wrong = render_call("edit", line=str(line), new="return 0")
    back = render_call("edit", line=str(line), new=app[line - 1].strip())
    said = [VIEW, wrong, TEST, back, SUBMIT, "words", render_call("edit", line="0", new="x"), right, TEST, SUBMIT]
    assert mistakes(task, lambda text: False, said) == [
        "", WRONG_EDIT, "", "", UNMENDED, WRONG_CALL, WRONG_CALL, "", "", "",
    ]  # fmt: skip
    assert mistakes(task, lambda text: True, [wrong, SUBMIT]) == ["", ""]


def test_mistakes_of_scripted_workers_are_found_where_something_showed_them(world: Any) -> None:
    assert isinstance(world, Flawed)
    made = habitual(world, world.tasks("train", 60, 0), 0)  # type: ignore[arg-type]
    assert made == habitual(world, world.tasks("train", 60, 0), 0)  # type: ignore[arg-type]
    every = measure([sample for sample, _ in made], CODE)
    assert every["precision"]["value"] == 1.0 and 0.2 < every["recall"]["value"] < 0.5  # most is never looked at
    kept = measure([sample for sample, solved in made if solved], CODE)
    assert kept["precision"]["value"] == kept["recall"]["value"] == 1.0 and kept["errors"] > 3


def test_the_command_measures_files_and_habits() -> None:
    told = CliRunner().invoke(app, ["masks", "--file", str(ANNOTATED), "--rule", "code", "--json"])
    (facts,) = json.loads(told.stdout)
    assert facts["rules"] == list(CODE) and facts["errors"] == 34
    for wrong, said in (
        (["--habits", "--env", "ledger"], "--habits must go with a world"),
        (["--solved"], "--solved must go with --habits"),
        (["--file", str(ANNOTATED), "--habits"], "--file must stand alone"),
    ):
        assert said in str(CliRunner().invoke(app, ["masks", *wrong]).exception)
