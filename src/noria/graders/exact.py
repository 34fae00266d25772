"""Exact match: the answer is one of the accepted texts, after the differences that are said to mean nothing.

The normalisation of questions answered in words (case, punctuation, articles, spaces) is that of SQuAD: Rajpurkar et
al. 2016, arXiv:1606.05250.
"""

from __future__ import annotations

import re
import unicodedata

from pydantic import Field

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders.base import ByBlank, Case, Example, Given, outcome, spec_of
from noria.graders.maths import final

NEEDS: tuple[str, ...] = ()
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_THOUSANDS = re.compile(r"(?<=\d)[,'\u2009\u202f](?=\d{3}(?!\d))")
#: Signs that stand outside of numbers.
_OUTSIDE = re.compile(r"[^\w\s.-]|(?<!\d)\.|[.-](?!\d)")


class Config(Checked):
    """Which differences mean nothing."""

    ignore_spaces: bool = Field(default=True, description="spaces around, and how many stand between words")
    ignore_case: bool = Field(default=False, description="capital and small letters")
    ignore_punctuation: bool = Field(default=False, description="every character of Unicode's punctuation classes")
    ignore_articles: bool = Field(default=False, description="the words a, an and the")
    whole_numbers: bool = Field(
        default=False,
        description="signs inside numbers count, but for those between thousands; any other is a blank between words",
    )
    final: bool = Field(default=False, description="only the last box, or what follows the last answer:, is looked at")
    max_chars: int = Field(default=0, ge=0, description="a longer answer is wrong unread; 0 = no limit")


class Spec(Checked):
    """What a right answer is."""

    accepted: tuple[str, ...] = Field(min_length=1, description="texts of which the answer must be one")
    unit: str = Field(default="", description="a unit that may follow; it is left away")


EXAMPLES = (
    Example({"accepted": ["Paris", "Paris, France"]}, ("Paris", "  Paris,  France\n"), ("", "paris", "Paris Paris")),
    Example({"accepted": ["12"], "unit": "km"}, ("12", "12 km"), ("12 m", "km", "12 km km")),
)


class ExactMatch(ByBlank):
    """See the module."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def grade(self, case: Case) -> Outcome:
        """1 if the answer is accepted."""
        spec, most = spec_of(Spec, case), self._config.max_chars
        if most and len(case.answer) > most:
            return outcome(False, f"longer than {most} characters")
        found = normalise(final(case.answer) if self._config.final else case.answer, self._config)
        unit = normalise(spec.unit, self._config)
        if unit and found.endswith(f" {unit}"):
            found = found.removesuffix(unit).strip()
        if found in {normalise(text, self._config) for text in spec.accepted}:
            return outcome(True, "accepted answer")
        return outcome(False, "another answer" if found else "no answer")

    async def close(self) -> None:
        """Nothing is held."""


def normalise(text: str, config: Config) -> str:
    """The text without the differences that mean nothing; compatible characters of Unicode are one (NFKC)."""
    text = unicodedata.normalize("NFKC", text)
    if config.ignore_case:
        text = text.casefold()
    if config.whole_numbers:
        text = _OUTSIDE.sub(" ", _THOUSANDS.sub("", text))
        if config.ignore_articles:
            return " ".join(word for word in text.split() if word not in ("a", "an", "the"))
    if config.ignore_punctuation:
        text = "".join(char for char in text if not unicodedata.category(char).startswith("P"))
    if config.ignore_articles:
        text = _ARTICLES.sub(" ", text)
    return " ".join(text.split()) if config.ignore_spaces else text


def build(config: Config, given: Given) -> ExactMatch:
    """A grader; needs nothing."""
    return ExactMatch(config)
