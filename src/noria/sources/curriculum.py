"""Worlds strictly in turn; in each, tasks of moderate difficulty first and hard ones last, by their pass rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from noria.core.errors import UserError
from noria.core.seeds import derive
from noria.core.types import Outcome, Task
from noria.sources.base import Given, SourceConfig, place

SLOT = "task_source"
SOURCE = "MOPD report, DeepSearch: curriculum from moderate to hard (schedule not stated; a straight line is ours)"
#: A phase with this source must measure its tasks' `difficulty`.
NEEDS_RATES = True


class Config(SourceConfig):
    """Where the wanted pass rate begins, where it ends, and how measured ones follow training."""

    start: float = Field(default=0.5, ge=0, le=1, description="Pass rate wanted of the first group (0.5: ours).")
    end: float = Field(default=0.125, ge=0, le=1, description="Pass rate wanted at the end: 1 of 8 (ours).")
    share: float = Field(
        default=1.0, gt=0, le=1, description="Share of the phase's groups over which it falls, then it holds (1: ours)."
    )
    memory: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Weight of a task's older pass rate against that of a group just trained on; 1 = rates stay as "
        "they were first measured (0.5: ours).",
    )

    @model_validator(mode="after")
    def _gets_harder(self) -> Config:
        if self.end > self.start:
            raise ValueError(f"end must be <= start, hard tasks come last: got {self.end} and {self.start} - swap them")
        return self


class Curriculum:
    """Built source.

    A group gets, of its world's tasks that the epoch has not drawn yet, the one whose pass rate is nearest to the
    wanted one; equals are taken in a seeded order. Remembered are the tasks drawn and the rates as they stand.
    """

    def __init__(self, config: Config, given: Given) -> None:
        self.config, self.given = config, given
        self.known = {task.id: task for found in given.tasks.values() for task in found}
        self.rates = {task: rate for task in self.known if (rate := given.rates.get(task)) is not None}
        if missing := [task for task in self.known if task not in self.rates]:
            raise UserError(
                f"task_source must know the pass rate of every task: {len(missing)} of {len(self.known)} have none, "
                f"{missing[0]!r} is the first - add difficulty = {{}} to the phase"
            )
        self.drawn: list[str] = []

    def wanted(self, group: int) -> float:
        """The pass rate that a group should have."""
        c = self.config
        part = min(1.0, group / max(1.0, c.share * self.given.groups - 1))
        return c.start + part * (c.end - c.start)

    def task(self, group: int) -> Task:
        """The task of a group; groups that were not drawn yet are drawn up to it."""
        while len(self.drawn) <= group:
            self.drawn.append(self._draw(len(self.drawn)))
        return self.known[self.drawn[group]]

    def _draw(self, group: int) -> str:
        tasks = self.given.tasks
        world, epoch, at = place(group, tasks)
        seen = {self.drawn[group - len(tasks) * back] for back in range(1, at + 1)}
        order = np.random.default_rng(derive(self.given.seed, world, epoch)).permutation(len(tasks[world]))
        left = [id for i in order if (id := tasks[world][int(i)].id) not in seen]
        wanted = self.wanted(group)
        return min(left, key=lambda id: abs(self.rates[id] - wanted))

    def observe(self, group: int, outcomes: Sequence[Outcome]) -> None:
        """Move the task's rate towards that of the group; unknown outcomes say nothing."""
        known = [outcome.solved for outcome in outcomes if outcome.known]
        if known:
            id, m = self.drawn[group], self.config.memory
            self.rates[id] = m * self.rates[id] + (1 - m) * sum(known) / len(known)

    def state(self) -> dict[str, Any]:
        return {"drawn": list(self.drawn), "rates": dict(self.rates)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.drawn, self.rates = list(state["drawn"]), dict(state["rates"])


def build(config: Config, given: Given) -> Curriculum:
    """The source for one phase. Raises UserError where a task has no pass rate."""
    return Curriculum(config, given)
