"""pass@k and maj@k of an evaluation: by task, unknown outcomes left out, majorities only where answers compare."""

from __future__ import annotations

from typing import Any

import pytest
from stage_helpers import rolled

from noria.core.protocols import Answers
from noria.core.types import Task
from noria.stages.evaluate import at_k


def test_of_several_rollouts_per_task(worlds: Any) -> None:
    first, second = Task("a", "arithmetic", "", ""), Task("b", "arithmetic", "", "")

    def said(task: Task, reward: float | None, message: str) -> Any:
        return rolled(reward, (message,), task=task)

    found = [
        said(first, 1.0, "<think>3 + 4</think>7"), said(second, 0.0, "8"), said(first, 1.0, " 7 "),
        said(second, 1.0, "9"), said(first, 0.0, "<think>cut"), said(second, None, "9"),
    ]  # fmt: skip
    # Task a: two right, one that answers nothing; task b has two known rollouts, which are fewer than 3.
    assert at_k(worlds["arithmetic"], found, 3) == {"pass@3": 1.0, "maj@3": 1.0}
    assert at_k(worlds["arithmetic"], found, 2) == {"pass@2": 1.0, "maj@2": 0.75}
    assert at_k(worlds["ledger"], found, 2) == {"pass@2": 1.0}  # what was done has no text to compare
    assert at_k(worlds["arithmetic"], found, 1) == {}


@pytest.mark.parametrize(
    ("message", "answer"),
    [("<think>1</think> 12\n", "12"), ("12", "12"), ("<think>1", None), ("<think>1</think>", None), ("", None)],
)
def test_what_a_message_answers(worlds: Any, message: str, answer: str | None) -> None:
    assert isinstance(worlds["arithmetic"], Answers) and not isinstance(worlds["ledger"], Answers)
    assert worlds["arithmetic"].answer(message) == answer
