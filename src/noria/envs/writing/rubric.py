"""Rubrics: criteria with weights, kept only where they tell a good text from bad ones; their order is nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from noria.core.config import Checked
from noria.envs.writing.criteria import MEASURES, Level, candidates
from noria.envs.writing.drafts import Brief


class Weights(Checked):
    """How much each criterion of a level counts (ours); the weights of those that a task keeps are made to sum to 1."""

    general: float = Field(default=1.0, gt=0, le=100, description="of any text")
    genre: float = Field(default=1.5, gt=0, le=100, description="of the genre")
    task: float = Field(default=2.0, gt=0, le=100, description="of this very task")

    def of(self, level: Level) -> float:
        """The weight of a level."""
        return {"general": self.general, "genre": self.genre, "task": self.task}[level]


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of a rubric."""

    name: str
    level: Level
    weight: float


@dataclass(frozen=True, slots=True)
class Rubric:
    """The criteria of a task."""

    criteria: tuple[Criterion, ...]

    def parts(self, text: str, brief: Brief) -> dict[str, float]:
        """What each criterion says."""
        return {one.name: MEASURES[one.name](text, brief) for one in self.criteria}

    def score(self, parts: Mapping[str, float]) -> float:
        """The weighted mean of the parts, in [0, 1]; 1 iff every part is 1. Sums are rounded once: order is nothing."""
        if all(parts[one.name] >= 1.0 for one in self.criteria):
            return 1.0
        whole = math.fsum(one.weight for one in self.criteria)
        return math.fsum(one.weight * parts[one.name] for one in self.criteria) / whole

    def data(self) -> list[list[Any]]:
        """Plain JSON that `rubric_of` reads."""
        return [[one.name, one.level, one.weight] for one in self.criteria]


def rubric_of(data: Iterable[Sequence[Any]]) -> Rubric:
    """The rubric of `Rubric.data`."""
    return Rubric(tuple(Criterion(name, level, weight) for name, level, weight in data))


def admitted(
    brief: Brief, good: str, bad: Sequence[str], weights: Weights, min_gap: float, tally: Counter[str] | None = None
) -> Rubric:
    """The criteria that separate: those that `good` meets in full and `bad` texts miss by `min_gap` on average.

    `tally` counts what is left out, by criterion and reason.
    """
    kept: list[Criterion] = []
    for name, level in candidates(brief.genre):
        measure = MEASURES[name]
        missed = sum(measure(text, brief) for text in bad) / len(bad)
        fault = "unmet" if measure(good, brief) < 1 else "blunt" if 1 - missed < min_gap else ""
        if fault and tally is not None:
            tally[f"{fault}: {name}"] += 1
        if not fault:
            kept.append(Criterion(name, level, weights.of(level)))
    return Rubric(tuple(kept))
