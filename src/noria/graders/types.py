"""The task types: a name for a kind of task, the grader that judges it, and the settings of that grader.

`noria tasks types` shows them with the worlds that use them; a world says so by the constant `GRADES` of its module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TaskType:
    """How tasks of a type are graded.

    grader        name of a file of this folder, or a dotted module
    settings      keys of the grader's `Config`
    about         what tasks of the type are, in a line
    concurrency   cases of the type that are graded at once at most
    timeout_s     seconds in which one case must be graded, repetitions included; then it is unknown
    retries       further tries after the sandbox or the judge failed
    wait_s        seconds before the first of them, doubled each time
    """

    grader: str
    about: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 8
    timeout_s: float = 60.0
    retries: int = 2
    wait_s: float = 0.2


_WORDS = {"ignore_case": True, "ignore_punctuation": True, "ignore_articles": True}
_FINAL: dict[str, Any] = {**_WORDS, "final": True, "max_chars": 400}
_ITEMS: dict[str, Any] = {
    "repeats": True, "ignore_punctuation": True, "ignore_articles": True, "max_chars": 400,
}  # fmt: skip
_BARE: dict[str, Any] = {"units": False, "max_chars": 400}
_JUDGED: dict[str, Any] = {"concurrency": 16, "timeout_s": 180.0}

TYPES: Mapping[str, TaskType] = {
    "math.expression": TaskType("maths", "mathematics: any form of the right expression"),
    "math.number": TaskType("numeric", "mathematics: one number"),
    "math.set": TaskType("collection", "mathematics: all solutions, in any order"),
    "math.sequence": TaskType("collection", "mathematics: terms in their order", {"order": True}),
    "reasoning.gym": TaskType("gym", "reasoning-gym: the dataset's own scorer"),
    "reasoning.gym_partial": TaskType("gym", "reasoning-gym: the dataset's own score as the reward", {"partial": True}),
    "stem.quantity": TaskType("numeric", "science: a number with its unit"),
    "stem.formula": TaskType("maths", "science: a formula in its symbols"),
    "stem.choice": TaskType("choice", "science: one or several of the options"),
    "code.tests": TaskType("tests", "code: every hidden test passes"),
    "code.tests_share": TaskType("tests", "code: the share of hidden tests that pass", {"reward": "share"}),
    "code.output": TaskType("output", "code: what a program prints for hidden inputs"),
    "code.output_share": TaskType("output", "code: the share of hidden inputs", {"reward": "share"}),
    "code.calls": TaskType("calls", "code: every hidden call gives the right result"),
    "code.calls_share": TaskType("calls", "code: the share of hidden calls", {"reward": "share"}),
    "code.sql": TaskType("sql", "code: a query gives the right rows"),
    "agent.patch": TaskType("tests", "code agent: a repository's tests pass", {"timeout_s": 60.0}, timeout_s=300.0),
    "agent.state": TaskType("state", "tool use: the world ends as wanted"),
    "agent.state_share": TaskType("state", "tool use: the weight of the checks that hold", {"reward": "share"}),
    "agent.calls": TaskType("tool_calls", "tool use: exactly the right calls in their order"),
    "agent.calls_any_order": TaskType("tool_calls", "tool use: the right calls in any order", {"order": False}),
    "agent.files": TaskType("state", "file work: files hold what they should"),
    "agent.checklist": TaskType("checklist", "file work: everything on a list is so"),
    "agent.checklist_share": TaskType("checklist", "file work: the weight of what is so", {"reward": "share"}),
    "search.short": TaskType("exact", "search: a name or a date, in words", _WORDS),
    "search.entity": TaskType("exact", "search: a name, or a number with its unit", {**_WORDS, "whole_numbers": True}),
    "search.overlap": TaskType("overlap", "search: F1 of the words of an answer"),
    "search.list": TaskType("collection", "search: everything that is asked for, F1", {"reward": "f1"}),
    "search.judged": TaskType("judge", "search: a model compares with the reference", **_JUDGED),
    "table.cell": TaskType("numeric", "tables: one number of a table"),
    "table.cells": TaskType("collection", "tables: several cells, in any order"),
    "table.number": TaskType("numeric", "tables: one number, whatever unit follows", _BARE),
    "table.text": TaskType("exact", "tables: words of a cell, however they are written", _FINAL),
    "table.list": TaskType("collection", "tables: words of several cells, each once", _ITEMS),
    "format.pattern": TaskType("patterns", "instructions: form, words that must and must not occur"),
    "format.json": TaskType("json_match", "instructions: JSON with a schema, or a value"),
    "format.verbatim": TaskType("exact", "instructions: exactly this text", {"ignore_spaces": False}),
    "instructions.judged": TaskType("staged", "instructions: rules, then a model looks for nonsense", **_JUDGED),
    "writing.rubric": TaskType("rubric", "writing: a model scores criteria, in both orders", **_JUDGED),
    "writing.pairwise": TaskType("pairwise", "writing: a model compares with a good text, in both orders", **_JUDGED),
    "safety.content": TaskType("reward_model", "safety: a reward model says yes or no", **_JUDGED),
    "safety.calls": TaskType("tool_calls", "safety: nothing that is forbidden is called", {"further": "allowed"}),
    "general.judged": TaskType("judge", "anything: a model decides, by majority of three", {"votes": 3}, **_JUDGED),
}  # fmt: skip
