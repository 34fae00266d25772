"""Sets and lists of texts or numbers: how many of those wanted were given, and how many besides."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders.base import ByBlank, Case, Example, Given, spec_of
from noria.graders.exact import Config as Differences
from noria.graders.exact import normalise
from noria.graders.maths import final

NEEDS: tuple[str, ...] = ()
_SEPARATOR = re.compile(r"\s*(?:[,;\n]|\band\b)\s*")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_MAX_ITEMS = 10_000


class Config(Checked):
    """How items are compared and what an incomplete collection earns."""

    order: bool = Field(default=False, description="whether the order counts")
    repeats: bool = Field(
        default=False, description="whether it counts how often an item is there; an ordered one always does"
    )
    reward: Literal["all", "f1"] = Field(
        default="all", description="all = 1 for exactly the items wanted; f1 = their F1"
    )
    abs_tol: float = Field(default=1e-9, ge=0, description="difference up to which two numbers are the same")
    ignore_case: bool = Field(default=True, description="capital and small letters are one")
    ignore_punctuation: bool = Field(default=False, description="signs of items mean nothing")
    ignore_articles: bool = Field(default=False, description="nor do the words a, an and the")
    max_chars: int = Field(default=0, ge=0, description="a longer answer is read as none; 0 = no limit")


class Spec(Checked):
    """What a right answer is."""

    items: tuple[str, ...] = Field(description="the items wanted, numbers as texts")


EXAMPLES = (
    Example(
        {"items": ["Oslo", "Rome", "Bern"]},
        ("Rome, Oslo and Bern", '["bern", "oslo", "rome"]', "- Oslo\n- Rome\n- Bern", "{Rome; Bern; Oslo}"),
        ("Oslo, Rome", "Oslo, Rome, Bern, Paris", "", "Oslo Rome Bern"),
    ),
    Example({"items": ["1", "2.50"]}, ("2.5, 1.0", "[1, 2.5]"), ("1, 2", "1")),
)


class Collection(ByBlank):
    """See the module."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._differences = Differences(
            ignore_case=config.ignore_case,
            ignore_punctuation=config.ignore_punctuation,
            ignore_articles=config.ignore_articles,
        )

    async def grade(self, case: Case) -> Outcome:
        """The reward, with `precision`, `recall` and `f1` as parts."""
        wanted = self._items(spec_of(Spec, case).items)
        most = self._config.max_chars
        given = self._items(read_items(case.answer) if not most or len(case.answer) <= most else [])
        if self._config.order:
            common = sum(a == b for a, b in zip(given, wanted, strict=False))
        else:
            common = _common(given, wanted)
        precision = common / len(given) if given else float(not wanted)
        recall = common / len(wanted) if wanted else float(not given)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        parts = {"precision": precision, "recall": recall, "f1": f1}
        exact = len(given) == len(wanted) == common
        reason = f"{common} of {len(wanted)} items, {len(given) - common} besides"
        return Outcome(float(exact) if self._config.reward == "all" else f1, parts, reason)

    async def close(self) -> None:
        """Nothing is held."""

    def _items(self, texts: Sequence[str]) -> list[str]:
        found = [_number(normalise(text, self._differences), self._config.abs_tol) for text in texts[:_MAX_ITEMS]]
        if self._config.order or self._config.repeats:
            return found
        return list(dict.fromkeys(found))


def read_items(answer: str) -> list[str]:
    """The items of an answer: a JSON list, one to a line, or between commas."""
    text = final(answer) if "\n" not in answer.strip() else answer.strip()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list):
        return [one if isinstance(one, str) else json.dumps(one) for one in found]
    text = text.strip()
    if text[:1] + text[-1:] in ("{}", "[]", "()"):
        text = text[1:-1]
    # Blanks are made one before anything is split at them: patterns are slow on long runs.
    lines = [_BULLET.sub("", " ".join(line.split())) for line in text.split("\n") if line.strip()]
    return [part for line in lines for part in _SEPARATOR.split(line) if part]


def _number(text: str, abs_tol: float) -> str:
    """A number in one form, rounded to the tolerance; any other text as it is."""
    try:
        value = float(text)
    except ValueError:
        return text
    if not math.isfinite(value):
        return text
    return repr(round(value / abs_tol) * abs_tol if abs_tol and abs(value / abs_tol) < 2**52 else value)


def _common(given: Sequence[str], wanted: Sequence[str]) -> int:
    return sum((Counter(given) & Counter(wanted)).values())


def build(config: Config, given: Given) -> Collection:
    """A grader; needs nothing."""
    return Collection(config)
