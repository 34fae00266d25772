"""Overlap of words with a reference, F1 as for answers in words: Rajpurkar et al. 2016, arXiv:1606.05250."""

from __future__ import annotations

from collections import Counter

from pydantic import Field

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders.base import ByBlank, Case, Example, Given, spec_of
from noria.graders.exact import Config as Differences
from noria.graders.exact import normalise

NEEDS: tuple[str, ...] = ()


class Config(Checked):
    """What an overlap earns."""

    least: float = Field(default=0.0, ge=0, le=1, description="F1 below this earns 0")
    max_chars: int = Field(default=20_000, ge=1, description="only so much of the answer is read")


class Spec(Checked):
    """What a right answer is."""

    accepted: tuple[str, ...] = Field(min_length=1, description="references; the best overlap counts")


EXAMPLES = (
    Example({"accepted": ["The Tower of London", "London"]}, ("tower of london", "London!"), ("Paris", "", "tower")),
)


class Overlap(ByBlank):
    """See the module."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._differences = Differences(ignore_case=True, ignore_punctuation=True, ignore_articles=True)

    async def grade(self, case: Case) -> Outcome:
        """The F1 of the best reference, with `precision`, `recall` and `f1` as parts."""
        spec = spec_of(Spec, case)
        given = self._words(case.answer[: self._config.max_chars])
        best = max((_score(given, self._words(text)) for text in spec.accepted), key=lambda score: score[2])
        parts = dict(zip(("precision", "recall", "f1"), best, strict=True))
        return Outcome(best[2] if best[2] >= self._config.least else 0.0, parts, f"F1 {best[2]:.2f}")

    async def close(self) -> None:
        """Nothing is held."""

    def _words(self, text: str) -> Counter[str]:
        return Counter(normalise(text, self._differences).split())


def _score(given: Counter[str], wanted: Counter[str]) -> tuple[float, float, float]:
    common = (given & wanted).total()
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / given.total(), common / wanted.total()
    return precision, recall, 2 * precision * recall / (precision + recall)


def build(config: Config, given: Given) -> Overlap:
    """A grader; needs nothing."""
    return Overlap(config)
