"""Statements: templates over what failing tests say, and those that a model words."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from small_repos import shapes
from typer.testing import CliRunner

from noria.cli import app
from noria.core.errors import EngineError
from noria.engines.scripted import ScriptedServer
from noria.envs.swe.records import Dataset
from noria.factory.statements import leaks, state
from noria.factory.worded import MOST, Wording
from noria.languages.python import build

PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-    return a - b\n+    return max(a, b) + total - offset\n"
SAID = {"tests/t.py::test_take_last[a/b]": "assert 3 == 4"}


def test_a_statement_speaks_of_failures_and_not_of_the_change() -> None:
    said = {
        "tests/t.py::test_take_last[3]": "assert 3 == 4\n +  where 3 = take(<object at 0x7f00>)",
        "t::TestAdd::test_b": "",
    }
    found = {state("pkg", said, 7, PATCH, random.Random(seed)).style for seed in range(20)}
    assert found == {"report", "terse", "ticket", "question"}
    for seed in range(8):
        text = state("pkg", said, 7, PATCH, random.Random(seed)).text
        assert "pkg" in text and "take last" in text and "assert 3 == 4" in text and "0x7f" not in text
    assert state("pkg", said, 7, PATCH, random.Random(1)) == state("pkg", said, 7, PATCH, random.Random(1))


def test_a_failure_without_a_message_is_shown_by_its_test(tmp_path: Path) -> None:
    shapes(tmp_path)
    layout = build().detect(tmp_path)
    assert layout is not None
    read = lambda path: (tmp_path / path).read_text()  # noqa: E731
    quoted = build().quote(layout, "tests/test_areas.py::TestSum::test_total[1]", read)
    assert quoted == "def test_total(self):\n    assert Sum().add(2).add(3).total == 5"
    assert build().quote(layout, "tests/test_areas.py::test_gone", read) == ""
    found = state("pkg", {"t::test_a": "assert False"}, 1, PATCH, random.Random(0), lambda test: quoted)
    assert found.style == "example" and quoted in found.text and "assert False" not in found.text


def test_a_statement_that_would_show_the_fix_is_not_used() -> None:
    assert leaks("it should be max(a, b) + total", PATCH) and not leaks("it should be max(a, b)", PATCH)
    said = {"t.py::test_x": "return max(a, b) + total - offset"}
    for seed in range(8):
        found = state("pkg", said, 1, PATCH, random.Random(seed))
        assert found.style == "bare" and "max(" not in found.text


@pytest.mark.parametrize(
    ("test", "said", "about", "words"),
    [
        ("gcd::whole", "", "gcd", ""),
        ("test/parse.js::whole", "", "parse", ""),
        ("tests/t.py::test_of[a::b]", "", "of", ""),
        (
            "r::runs",
            "assertion `left == right` failed\n  left: [(1, 1)]\n right: [(1, 2)]",
            "runs",
            "left: [(1, 1)], right: [(1, 2)]",
        ),
        (
            "t.js::lists",
            "Expected values to be strictly deep-equal:\n+ actual - expected\n\n"
            "  {\n    a: [\n+     '3'\n-     '1'\n    ]\n  }",
            "lists",
            "got { a: [ '3' ] }, expected { a: [ '1' ] }",
        ),
    ],
)
def test_a_statement_says_what_came_out_in_every_language(test: str, said: str, about: str, words: str) -> None:
    for seed in range(8):
        text = state("pkg", {test: said}, 1, PATCH, random.Random(seed)).text
        assert about in text and words in text and "whole" not in text


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("<think>hm</think>```\nTaking the last of three gives 4, not 3.\n```", "used"),
        ("", "an empty answer"),
        ("take " * MOST, "an answer that is too long"),
        ("Last is wrong: it should return max(a, b) + total.", "an answer that gives the change away"),
        ("I am sorry.", "an answer about something else"),
    ],
)
def test_a_models_statement_is_checked_and_a_template_stands_in(said: str, outcome: str) -> None:
    heard: list[str] = []
    wording = Wording(lambda messages: heard.append(messages[-1].content) or said)  # type: ignore[func-returns-value]
    found = state("pkg", SAID, 7, PATCH, random.Random(0), worded=wording)
    assert dict(wording.counts) == {outcome: 1}
    assert "take last" in heard[0] and "assert 3 == 4" in heard[0] and "max(" not in heard[0]
    if outcome == "used":
        assert (found.text, found.style) == ("Taking the last of three gives 4, not 3.", "model")
    else:
        assert found.style in ("report", "terse", "ticket", "question") and "take last" in found.text


def test_a_server_that_fails_costs_no_task() -> None:
    def gone(messages: Any) -> str:
        raise EngineError("gone")

    wording = Wording(gone)
    assert state("pkg", SAID, 7, PATCH, random.Random(0), worded=wording).style != "model"
    assert wording.counts["the server failed"] == 1


def test_a_making_words_its_statements_once(tmp_path: Path) -> None:
    def answer(request: Mapping[str, Any]) -> str:
        return f"A thing of shapes is wrong, number {len(str(request))}."

    words = ["tasks", "make", "swe", shapes(tmp_path / "a"), "--out", str(tmp_path / "o"), "--n", "2", "--workers", "1",
             "--worded", "--operators", "operator_changed", "--operators", "comparison_flipped", "--json"]  # fmt: skip
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code != 0 and "--worded must go with a model" in refused.output + str(refused.exception)
    with ScriptedServer(answer) as server:
        served = [*words, "--propose", server.url, "--model", "m"]
        done = CliRunner().invoke(app, served)
        assert done.exit_code == 0, done.output
        report = json.loads(done.output)
        assert report["by_style"] == {"model": 2} and report["worded"]["used"] >= 2
        made = {task.id: task.statement for task in Dataset(tmp_path / "o").tasks.values()}
        assert all(text.startswith("A thing of shapes is wrong") for text in made.values())
        assert CliRunner().invoke(app, served).exit_code == 0
    assert {task.id: task.statement for task in Dataset(tmp_path / "o").tasks.values()} == made
