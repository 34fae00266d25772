"""The upbringing on real functions: which are seen, and transcripts whose edits make the function whole again."""

from __future__ import annotations

import ast
import json
import random
import re
from pathlib import Path

import pytest
import real_functions
from build_tiny import build_tokenizer, encode, take_tokenizer
from mixes import MIXES, Forms, Mix

from noria.envs.microswe.edits import apply, read
from noria.factory.functions.build import alike, one_line_mutants, traits
from noria.factory.functions.choose import standing
from noria.tokens.calls import Call, parse

PACKAGE = '''
import os


def total(values: list[int], *, start: int = 0, **rest: int) -> int:
    """Sum of the values above nothing. It is short."""
    count = start  # so far
    for value in values:
        if value > 0 and value != 7:
            count += value
    return count + 1


class Shelf:
    @property
    def widest(self):
        best = self.books[0]
        for book in self.books[1:]:
            if book.width > best.width:
                best = book
        return best


def one(value):
    return value
'''
#: `total` under other names.
COPY = """
def add_up(numbers, start=0):
    done = start
    for number in numbers:
        if number > 0 and number != 7:
            done += number
    return done + 1
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one module, one of tests and one that is no text, in the place of the packages."""
    root = tmp_path / "package"
    (root / "tests").mkdir(parents=True)
    (root / "module.py").write_text(PACKAGE)
    (root / "test_module.py").write_text(COPY)
    (root / "tests" / "more.py").write_text(COPY)
    (root / "latin.py").write_bytes(b"# \xe9\n" + COPY.encode())
    monkeypatch.setattr(real_functions, "_roots", lambda: [root])
    return root


def test_small_functions_and_methods_are_seen_and_tests_are_not(package: Path) -> None:
    found = real_functions.functions()
    assert [re.match(r"def (\w+)", text)[1] for text in found] == ["total", "widest"]
    assert found[0] == (
        'def total(values, *, start=0, **rest):\n    """Sum of the values above nothing"""\n    count = start\n'
        "    for value in values:\n        if value > 0 and value != 7:\n            count += value\n"
        "    return count + 1\n"
    )


def test_a_function_like_one_that_is_kept_away_is_not_seen(package: Path, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "held.py").write_text(COPY)
    assert [text.split("(")[0] for text in real_functions.functions([tmp_path / "away"])] == ["def widest"]


def test_functions_are_alike_under_other_names_and_not_for_their_length() -> None:
    node = ast.parse(PACKAGE).body[1]
    assert isinstance(node, ast.FunctionDef)
    total = standing(node, PACKAGE.splitlines())
    assert total is not None
    assert alike(traits(total), traits(COPY.lstrip()))
    assert not alike(traits(total), traits("def f(a):\n    b = [a]\n    b.reverse()\n    return b\n"))


def test_the_edits_of_every_transcript_make_the_function_whole(package: Path) -> None:
    texts = real_functions.functions()
    forms = {"one": 0, "several": 0, "copy": 0}
    for row in real_functions.rows(texts, 200, random.Random(0)):
        view = [line.partition(" ")[2] for line in row["turns"][0][1].split("\n")]
        calls = [call for call in parse(row["turns"][1][0]).calls if isinstance(call, Call)]
        gold = next(text for text in texts if text.split("\n")[0] == view[0] or text.split("(")[0] in "\n".join(view))
        if "anew as they are" in row["prompt"]:
            forms["copy"] += 1
            assert [view[int(call.args["line"]) - 1].strip() for call in calls] == [call.args["new"] for call in calls]
            assert "\n".join(view) + "\n" in texts
            continue
        forms["several" if "bugs of" in row["prompt"] else "one"] += 1
        app = "\n".join(view) + "\n"
        assert app not in texts
        for call in calls:
            app = apply(app, read(call.args))
        assert app == gold
        assert re.fullmatch(r"pass (\d)/\1", row["turns"][2][1])
        assert len(calls) == int(re.search(r"Fix (\d) bugs", row["prompt"])[1]) if len(calls) > 1 else True
    assert min(forms.values()) > 20


def test_wrong_habits_leave_the_bug_or_do_not_test(package: Path) -> None:
    forms = Forms(copied=0.0, several=0.0, wrong=1.0)
    seen: dict[tuple[str, bool], int] = {}
    for row in real_functions.rows(real_functions.functions(), 120, random.Random(0), forms):
        said = [message for message, _ in row["turns"]]
        assert not row["right"] and real_functions.TEST not in said and said[-1] == real_functions.SUBMIT
        assert len(said) == {"quit": 1, "giveup": 2, "hasty": 3}[row["strategy"]]
        key = (row["strategy"], row["solved"])
        seen[key] = seen.get(key, 0) + 1
    assert set(seen) == {("quit", False), ("giveup", False), ("hasty", False), ("hasty", True)}
    assert min(seen.values()) > 8


def test_a_mix_says_how_many_bugs_at_most(package: Path) -> None:
    for most, wanted in ((2, {2}), (4, {2, 3, 4})):
        forms = Forms(copied=0.0, several=1.0, most=most)
        made = real_functions.rows(real_functions.functions(), 100, random.Random(0), forms)
        assert {row["turns"][1][0].count("<call ") for row in made} == wanted


def test_a_wrong_guess_of_a_search_weighs_little_and_its_undoing_fully(tmp_path: Path) -> None:
    from tiny_corpus import GUESS, open_worlds, transcripts

    from noria.tokens.renderer import Renderer

    mix = MIXES["code-agent"]
    made = list(transcripts(mix, 80, 3, open_worlds(mix)))
    search = [row for row in made if row["strategy"] == "search" and "weights" in row]
    assert len(search) > 5 and all("weights" not in row for row in made if row["strategy"] != "search")
    for row in search:
        edits = [w for w, (said, _) in zip(row["weights"], row["turns"], strict=True) if 'name="edit"' in said]
        assert len(row["weights"]) == len(row["turns"]) and edits[-1] == 1.0 and set(edits[1::2]) <= {1.0}
        assert set(row["weights"]) <= {1.0, GUESS}
    assert any(GUESS in row["weights"] for row in search)
    (tmp_path / "corpus-0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    build_tokenizer(tmp_path, tmp_path / "code", Mix({}, {}, {}, vocabulary=400))
    (tmp_path / "code" / "model.safetensors").write_bytes(b"")
    take_tokenizer(tmp_path / "code-agent", "code")
    renderer = Renderer.load(tmp_path / "code-agent")
    (_, weights), row = encode([search[0]], renderer, 0.5)[0], search[0]
    said = [len(renderer.message(message)) for message, _ in row["turns"]]
    for value in (1.0, GUESS):
        wanted = sum(n for n, w in zip(said, row["weights"], strict=True) if w == value)
        assert int((abs(weights - value) < 1e-6).sum()) == wanted


def test_a_mix_that_goes_on_from_another_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make base MIX=code first"):
        take_tokenizer(tmp_path / "code-agent", "code")


def test_transcripts_belong_to_the_seed_and_plain_functions_come_oftener(package: Path) -> None:
    texts = real_functions.functions()
    made = [list(real_functions.rows(texts, 30, random.Random(seed))) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    assert real_functions._often("def f(self):\n    pass\n") == 1
    assert real_functions._often("def f(a):\n    return a + 1\n") == 6
    assert real_functions._often("def f(a):\n    return os.path(a)\n") == 2


def test_every_mutant_differs_in_one_line_below_the_head() -> None:
    mutants = one_line_mutants(COPY.lstrip(), 0)
    assert len(mutants) > 10
    for _, text in mutants:
        pairs = list(zip(text.split("\n"), COPY.lstrip().split("\n"), strict=True))
        assert pairs[0][0] == pairs[0][1]
        assert sum(have != want for have, want in pairs) == 1


def test_a_line_of_a_view_has_the_tokens_that_it_has_in_an_edit(package: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    rows = list(real_functions.rows(real_functions.functions(), 100, random.Random(0)))
    (tmp_path / "corpus-0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_tokenizer(tmp_path, tmp_path / "model", Mix({}, {}, {}, vocabulary=400, functions=1.0))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    line = "if value > 0 and value != 7:"
    view, edit = (tokenizer.encode(text) for text in (f"4 x\n5         {line}\n6 y", f"<new>{line}</new>"))
    copied = edit[1:-1]
    assert any(view[i : i + len(copied)] == copied for i in range(len(view)))
    assert tokenizer.decode(view) == f"4 x\n5         {line}\n6 y"
