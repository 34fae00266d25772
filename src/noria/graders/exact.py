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
from noria.graders.base import Case, Example, Given, outcome, spec_of

NEEDS: tuple[str, ...] = ()
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class Config(Checked):
    """Which differences mean nothing."""

    ignore_spaces: bool = Field(default=True, description="spaces around, and how many stand between words")
    ignore_case: bool = Field(default=False, description="capital and small letters")
    ignore_punctuation: bool = Field(default=False, description="every character of Unicode's punctuation classes")
    ignore_articles: bool = Field(default=False, description="the words a, an and the")


class Spec(Checked):
    """What a right answer is."""

    accepted: tuple[str, ...] = Field(min_length=1, description="texts of which the answer must be one")


EXAMPLES = (
    Example({"accepted": ["Paris", "Paris, France"]}, ("Paris", "  Paris,  France\n"), ("", "paris", "Paris Paris")),
)


class ExactMatch:
    """See the module."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def grade(self, case: Case) -> Outcome:
        """1 if the answer is accepted."""
        spec = spec_of(Spec, case)
        found = normalise(case.answer, self._config)
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
    if config.ignore_punctuation:
        text = "".join(char for char in text if not unicodedata.category(char).startswith("P"))
    if config.ignore_articles:
        text = _ARTICLES.sub(" ", text)
    return " ".join(text.split()) if config.ignore_spaces else text


def build(config: Config, given: Given) -> ExactMatch:
    """A grader; needs nothing."""
    return ExactMatch(config)
