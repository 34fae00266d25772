"""A check-list: many things that must all be so, each judged by a grader of its own on the answer or on one file.

An item that could not be graded makes the outcome unknown: a list with a hole says nothing about the whole.
"""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, field_validator

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders.base import Case, Example, Given, Grader, control_of, need_children, outcome, spec_of
from noria.graders.staged import made

NEEDS = ("children",)


class Config(Checked):
    """What a list that is met in part earns."""

    reward: Literal["all", "share"] = Field(
        default="all", description="all = 1 iff every item is met; share = the weight of what is met"
    )


class Item(Checked):
    """One thing to look at."""

    name: str = Field(min_length=1, description="the part that tells of it")
    grader: str = Field(default="exact", min_length=1, description="name of the grader that looks")
    settings: dict[str, Any] = Field(default_factory=dict, description="keys of its Config")
    spec: dict[str, Any] = Field(default_factory=dict, description="what is right, for that grader")
    path: str = Field(default="", description="file whose text is looked at; empty = the answer")
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="against the other items")


class Spec(Checked):
    """What a right piece of work is."""

    items: tuple[Item, ...] = Field(min_length=1, description="everything that must be so")

    @field_validator("items")
    @classmethod
    def _are_distinct(cls, value: tuple[Item, ...]) -> tuple[Item, ...]:
        names = [item.name for item in value]
        if len(set(names)) != len(names):
            raise ValueError(f"items must have distinct names: got {names} - name each once")
        return value


EXAMPLES = (
    Example(
        {
            "items": [
                {"name": "sum", "grader": "numeric", "spec": {"value": 12}},
                {"name": "report", "path": "out.txt", "grader": "patterns", "spec": {"must": ["total 12"]}},
                {"name": "note", "path": "note.md", "spec": {"accepted": ["done"]}, "weight": 2},
            ]
        },
        ({"answer": "12", "files": {"out.txt": "the total 12", "note.md": "done"}},),
        (
            {"answer": "13", "files": {"out.txt": "the total 12", "note.md": "done"}},
            {"answer": "12", "files": {"out.txt": "the total 12"}},
            {"answer": "12", "files": {"out.txt": "the total 12", "note.md": "done?"}},
            "12",
        ),
    ),
)


class CheckList:
    """See the module."""

    def __init__(self, config: Config, given: Given) -> None:
        self._config, self._given = config, given
        self._graders: dict[tuple[str, str], Grader] = {}

    async def grade(self, case: Case) -> Outcome:
        """The reward, with a part for every item: what its grader said of it, 0 for a file that is not there.

        Raises:
            UserError: an item names no grader, or its settings or its spec are refused.
        """
        items = spec_of(Spec, case).items
        parts: dict[str, float] = {}
        for item in items:
            found = await self._look(item, case)
            if found.reward is None:
                return Outcome.unknown(f"{item.name}: {found.reason}")
            parts[item.name] = found.reward
        whole = math.fsum(item.weight for item in items)
        share = math.fsum(item.weight * parts[item.name] for item in items) / whole
        missed = [item.name for item in items if parts[item.name] < 1]
        if not missed:
            return Outcome(1.0, parts, "every item met")
        reason = f"{len(missed)} of {len(items)} items not met: {', '.join(missed[:5])}"
        return Outcome(0.0 if self._config.reward == "all" else min(share, math.nextafter(1, 0)), parts, reason)

    async def control(self, case: Case) -> Outcome:
        """Known where the control run of every item is."""
        for item in spec_of(Spec, case).items:
            found = await control_of(self._grader(item), replace(case, spec=item.spec))
            if found.reward is None:
                return found
        return outcome(True, "every item can be graded")

    async def close(self) -> None:
        """Close the graders of the items."""
        await asyncio.gather(*(grader.close() for grader in self._graders.values()))

    async def _look(self, item: Item, case: Case) -> Outcome:
        if item.path and item.path not in case.files:
            return Outcome(0.0, {}, f"no file {item.path}")
        answer = case.files[item.path] if item.path else case.answer
        return await self._grader(item).grade(replace(case, answer=answer, spec=item.spec))

    def _grader(self, item: Item) -> Grader:
        key = (item.grader, json.dumps(item.settings, sort_keys=True, default=str))
        if key not in self._graders:
            self._graders[key] = made(item.grader, item.settings, self._given)
        return self._graders[key]


def build(config: Config, given: Given) -> CheckList:
    """A grader; a sandbox or a judge that an item needs must be given when the item is first met.

    Raises:
        UserError: no child processes are given.
    """
    need_children(given, "checklist")
    return CheckList(config, given)
