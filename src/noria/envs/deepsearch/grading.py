"""Exact match after normalisation: what an answer may vary in is its spelling, not its content."""

from __future__ import annotations

from collections.abc import Sequence

from noria.graders import exact
from noria.graders.base import Case
from noria.graders.blocking import at_once
from noria.graders.types import TYPES

TYPE = "search.entity"
_DIFFERENCES = exact.Config(**TYPES[TYPE].settings)


def normalise(text: str) -> str:
    """Small letters, one form of each sign, no articles, no punctuation outside of numbers, single blanks."""
    return exact.normalise(text, _DIFFERENCES)


def matches(said: str, answers: Sequence[str], unit: str = "") -> bool:
    """Whether `said` is one of the answers; the unit may follow a number. An empty text is none."""
    known = [answer for answer in answers if normalise(answer)]
    return bool(known) and at_once(Case(TYPE, answer=said, spec={"accepted": known, "unit": unit})).solved
