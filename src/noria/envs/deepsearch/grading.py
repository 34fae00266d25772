"""Exact match after normalisation: what an answer may vary in is its spelling, not its content."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_THOUSANDS = re.compile(r"(?<=\d)[,'\u2009\u202f](?=\d{3}(?!\d))")
_SIGNS = re.compile(r"[^\w\s.-]|(?<!\d)\.|[.-](?!\d)")
_ARTICLES = frozenset(("a", "an", "the"))


def normalise(text: str) -> str:
    """Small letters, one form of each sign, no articles, no punctuation outside of numbers, single blanks."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = _SIGNS.sub(" ", _THOUSANDS.sub("", plain))
    return " ".join(word for word in plain.split() if word not in _ARTICLES)


def matches(said: str, answers: Sequence[str], unit: str = "") -> bool:
    """Whether `said` is one of the answers; the unit may follow a number. An empty text is none."""
    plain = normalise(said)
    if unit and plain.endswith(f" {normalise(unit)}"):
        plain = plain.removesuffix(normalise(unit)).strip()
    return bool(plain) and any(plain == normalise(answer) for answer in answers)
