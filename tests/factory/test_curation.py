"""Curation: duplicates, crowds, and tasks of evaluation sets; what a report counts; operators in turn."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from noria.core.errors import UserError
from noria.factory.candidate import Candidate, in_turn
from noria.factory.curation import Curation, Held, read_evaluation
from noria.factory.report import Tally, summary

PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-    return a - b\n+    return max(a, b) + total - offset\n"
OTHER = PATCH.replace("max(a, b)", "min(left, right) * scale").replace("a - b", "left / right")
TEXT = "words of a task that is held out for evaluation"


def test_duplicates_and_crowds_are_refused() -> None:
    curation = Curation(10, per_target=2)
    assert curation.refuse("r", "f", OTHER, "one text") == ""
    assert curation.refuse("r", "g", OTHER, "one text") == "exact duplicate"
    assert curation.refuse("r", "g", OTHER + " ", "one text") == "near duplicate"
    third = OTHER.replace("scale", "sum(x for x in values if x) ** power").replace("left", "first(second)")
    assert curation.refuse("r", "f", third, "something else entirely about another thing") == ""
    assert curation.crowded("r", "f") and curation.refuse("r", "f", "z", "y") == "enough bugs in this function"


REVERSED = "".join(
    f"{'+' if line[0] == '-' else '-'}{line[1:]}" if line[:1] in "+-" and line[:3] not in ("---", "+++") else line
    for line in PATCH.splitlines(keepends=True)
)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"patch": PATCH, "statement": TEXT, "fail_to_pass": ["t"]}),
        json.dumps({"instance_id": "x", "patch": PATCH, "problem_statement": "another"}),
        json.dumps({"instance_id": "x", "patch": REVERSED.replace("@@ -1 +1 @@", "@@ -7 +7 @@ def f():")}),
        json.dumps({"id": "x", "prompt": TEXT}),
        TEXT,
    ],
)
def test_a_task_of_an_evaluation_set_does_not_come_back_in_any_form(line: str, tmp_path: Path) -> None:
    (tmp_path / "held").write_text(f"\n{line}\n\n")
    held = read_evaluation([tmp_path / "held"])
    assert len(held) == 1
    curation = Curation(10, 3, held)
    assert curation.refuse("r", "f", PATCH, TEXT.upper()) == "like a task of an evaluation set"
    assert curation.refuse("r", "f", OTHER, "one text") == ""


def test_evaluation_sets_must_be_text_and_hold_tasks(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('one\n\n["two"]\n')
    assert read_evaluation([tmp_path / "a"]) == [Held("", "one"), Held("", '["two"]')]
    with pytest.raises(UserError, match="--decontaminate must name text files"):
        read_evaluation([tmp_path / "b"])
    (tmp_path / "c").write_text('{"patch": "x"}\n{"question": "y"}\n')
    with pytest.raises(UserError, match="c:2 has none of patch, statement, problem_statement"):
        read_evaluation([tmp_path / "c"])


def test_no_operator_comes_first_in_every_repository() -> None:
    def candidate(operator: str) -> Candidate:
        return Candidate("r", operator, operator, 1, (), None)

    queues = {name: [candidate(name)] for name in "abcdefgh"}
    firsts = Counter(next(in_turn(queues, random.Random(seed))).operator for seed in range(400))
    assert set(firsts) == set(queues) and max(firsts.values()) < 80


def test_a_report_has_the_yield_of_each_language() -> None:
    tally = Tally(languages={"a": "c", "b": "python", "d": "python"})
    for repo, tried, proven in (("a", 4, 1), ("b", 2, 1), ("d", 2, 2)):
        tally.tried[repo, "x"] = tried
        tally.proven[repo, "x"] = tally.kept[repo, "x"] = proven
    assert summary(9, tally, [])["by_language"] == {
        "c": {"tried": 4, "proven": 1, "kept": 1, "yield": 0.25},
        "python": {"tried": 4, "proven": 3, "kept": 3, "yield": 0.75},
    }
