"""Small repair tasks of real functions: what is chosen, what is watched, what is proven, and how they are played."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noria.core.cover import cover
from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.core.types import Message
from noria.envs.microswe.plain import plain
from noria.envs.microswe.world import Config, MicroSwe
from noria.factory.functions import build
from noria.factory.functions.build import Found, split
from noria.factory.functions.choose import Choice, choose
from noria.factory.functions.make import TASKS, Plan, make
from noria.sandboxes import bwrap

SOURCE = '''"""Small things."""
import os


def clamp(value: int, low: int, high: int) -> int:
    """Bring a value between two bounds. The bounds count."""
    best: int = value
    if value < low:  # too small
        best = low
    elif value > high:
        best = high
    return best


def vowels(text):
    count = 0
    for sign in text:
        if sign in "aeiou":
            count += 1
    return count


def here(name):
    base = os.getcwd()
    return base + name


def uses_other(value):
    value += 1
    return clamp(value, 0, 9)


def many(*values):
    total = sum(values)
    return total


def untested(a, b):
    c = a - b
    return c
'''
TEST = """from small import clamp, vowels


def test_clamp():
    assert [clamp(n, 2, 5) for n in (1, 2, 3, 5, 6)] == [2, 2, 3, 5, 5]
    assert clamp(7, 0, high=9) == 7


def test_vowels():
    assert vowels("banana") == 3 and vowels("xyz") == 0 and vowels("ae") == 2
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = bwrap.build(bwrap.Config(type="bwrap", memory_mb=512, disk_mb=64, timeout_s=60.0, servers=1))
    yield made
    made.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, sandbox: Sandbox) -> tuple[Path, dict[str, Any]]:
    home = tmp_path_factory.mktemp("functions")
    (home / "small").mkdir()
    (home / "small" / "small.py").write_text(SOURCE)
    (home / "small" / "test_small.py").write_text(TEST)
    report = make(Plan((str(home / "small"), str(home / "nowhere")), home / "out"), sandbox)
    return home / "out", report


def test_what_stands_alone_is_chosen_and_bared() -> None:
    found = {one.name: one for one in choose("small.py", SOURCE)}
    assert sorted(found) == ["clamp", "untested", "vowels"]
    assert found["clamp"].first_line == 5
    assert found["clamp"].text == (
        'def clamp(value, low, high):\n    """Bring a value between two bounds"""\n    best = value\n'
        "    if value < low:\n        best = low\n    elif value > high:\n        best = high\n    return best\n"
    )


def test_a_cover_tells_all_mutants_with_few_tests() -> None:
    assert cover([{0}, {1}, {0, 1, 2}, set()], [3, 3, 9, 1], 1, 3) == [2]
    assert cover([{0}, {1}, {0, 1, 2}, set()], [3, 3, 9, 1], 2, 3) == [0, 2]
    assert cover([{0}, {1}], [1, 1], 1, 1) == [0]


def test_rows_hold_what_they_promise(made: tuple[Path, dict[str, Any]]) -> None:
    out, report = made
    rows = [json.loads(text) for text in (out / TASKS).read_text().splitlines()]
    assert report["tasks"] == len(rows) > 8 and report["functions"] == 3 and report["with_tasks"] == 2
    assert report["refused"] == {"no test calls it with plain values": 1}
    assert list(report["sources_refused"]) == [str(out.parent / "nowhere")]
    for row in rows:
        app, gold = row["app"].split("\n"), row["gold"].split("\n")
        assert [n for n, (a, b) in enumerate(zip(app, gold, strict=True), 1) if a != b] == [row["line"]]
        assert plain(row["app"])
        spaces: dict[str, dict[str, Any]] = {"app": {}, "gold": {}}
        for name, space in spaces.items():
            exec(row[name], space)  # noqa: S102 - a function of SOURCE
        pairs = [([ast.literal_eval(text) for text in args], ast.literal_eval(want)) for args, want in row["calls"]]
        assert all(spaces["gold"][row["function"]](*args) == want for args, want in pairs)
        assert any(_fails(spaces["app"][row["function"]], args, want) for args, want in pairs)


def _fails(run: Any, args: list[Any], want: Any) -> bool:
    try:
        return bool(run(*args) != want)
    except (TypeError, NameError, UnboundLocalError, ValueError, IndexError):
        return True


def test_a_second_call_goes_on_and_gives_the_same(made: tuple[Path, dict[str, Any]], sandbox: Sandbox) -> None:
    out, report = made
    before = (out / TASKS).read_bytes()
    assert make(Plan((str(out.parent / "small"),), out), sandbox)["tasks"] == report["tasks"]
    assert (out / TASKS).read_bytes() == before


@pytest.mark.parametrize("strategy", ["careful", "direct", "recover"])
def test_experts_solve_them_and_the_bug_as_it_is_fails(
    made: tuple[Path, dict[str, Any]], sandbox: Sandbox, strategy: str
) -> None:
    world = MicroSwe(Config(type="microswe", path=str(made[0] / TASKS)), sandbox)
    (name, *_) = world.splits
    for task in world.tasks(name, 4, 0):
        episode, play, said = world.open(task), world.policy(task, strategy, 0), list[Message]()
        assert episode.grade().reward == 0.0
        for _ in range(10):
            message = play(said)
            seen = episode.act(message)
            said += [Message("assistant", message), Message("tool", seen.text)]
            if seen.done:
                break
        assert episode.grade().reward == 1.0
    assert world.tasks(name, 3, 5) == world.tasks(name, 4, 5)[:3]


def test_functions_that_are_alike_lie_in_one_split() -> None:
    def found(name: str, variable: str) -> tuple[str, Found]:
        body = f"    {variable} = 0\n    for x in xs:\n        {variable} += x * 2\n    return {variable}\n"
        text = f"def {name}(xs):\n{body}"
        return "p", Found(Choice("p.py", name, 1, text), ({"function": name},))

    names = [f"f{i}" for i in range(30)]
    sides = {row["split"] for row in split([found(name, f"v{name}") for name in names])}
    assert len(sides) == 1
    other = ("q", Found(Choice("q.py", "g", 1, found("g", "t")[1].choice.text), ({"function": "g"},)))
    rows = list(split([found("f", "s"), other], unseen=("q",)))
    assert rows == [{"split": "unseen", "function": "g"}]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"app": "import os\n"}, "one plain function"),
        ({"calls": [[["__import__('os')"], "1"]]}, "malformed"),
        ({"gold": "def f(a):\n    return a\n\n"}, "same number of lines"),
        ({"split": "test"}, "split"),
        ({"more": 1}, "more"),
        ({"calls": []}, "calls"),
    ],
)
def test_a_file_that_is_none_is_refused_by_line(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    row = {
        "split": "train", "package": "p", "function": "f", "kind": "k", "line": 2, "app": "def f(a):\n    return -a\n",
        "gold": "def f(a):\n    return a\n", "calls": [[["1"], "1"]], "spare": [], "wrong": [[2, "return 0"]],
    }  # fmt: skip
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(row | change) + "\n")
    with pytest.raises(UserError, match=rf"line 2: .*{said}"):
        MicroSwe(Config(type="microswe", path=str(path)), None)
    path.write_text(json.dumps(row) + "\n")
    world = MicroSwe(Config(type="microswe", path=str(path)), None)
    assert world.splits == ("train",) and len(world.tasks("train", 2, 0)) == 1
    with pytest.raises(UserError, match="must hold tasks of the split heldout: got none"):
        world.tasks("heldout", 1, 0)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="env path must be a file of tasks"):
        MicroSwe(Config(type="microswe", path=str(tmp_path / "none")), None)


def test_a_mutant_differs_in_one_line() -> None:
    choice = next(one for one in choose("small.py", SOURCE) if one.name == "clamp")
    for mutation, text in build.one_line_mutants(choice.text, 0):
        changed = build._changed(choice.text, text)
        assert len(changed) == 1 and plain(text) and mutation.operator
