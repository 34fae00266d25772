"""Multiple choice: the answer names the right options by letter or by text, and no other."""

from __future__ import annotations

import re
from string import ascii_uppercase

from pydantic import Field, model_validator

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders.base import ByBlank, Case, Example, Given, outcome, spec_of
from noria.graders.maths import final

NEEDS: tuple[str, ...] = ()
_LETTER = re.compile(r"[(\[]?([A-Z])[)\].:]?(?:\s+(.*))?", re.DOTALL)
_LIST = re.compile(r"\s*(?:,|;|/|&|\band\b|\s)\s*")


class Config(Checked):
    """How an answer is read."""

    ignore_case: bool = Field(default=True, description="whether a small letter is as good")


class Spec(Checked):
    """What a right answer is."""

    options: tuple[str, ...] = Field(min_length=2, max_length=26, description="texts of the options A, B, C, …")
    right: tuple[str, ...] = Field(min_length=1, description="letters of the right options; several = all of them")

    @model_validator(mode="after")
    def _has_letters(self) -> Spec:
        letters = ascii_uppercase[: len(self.options)]
        if not set(self.right) <= set(letters) or len(set(self.right)) < len(self.right):
            raise ValueError(f"right must hold letters of {letters}, each once: got {self.right}")
        return self


EXAMPLES = (
    Example(
        {"options": ["iron", "gold", "lead"], "right": ["B"]},
        ("B", "(b)", "B. gold", "gold", r"\boxed{B}", "Answer: B"),
        ("A", "", "A or B", "B, C", "B. lead", "D", "ABC"),
    ),
    Example({"options": ["2", "3", "4"], "right": ["A", "B"]}, ("A, B", "B and A", "AB"), ("A", "A, B, C", "A A")),
)


class Choice(ByBlank):
    """See the module."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def grade(self, case: Case) -> Outcome:
        """1 if exactly the right options are named."""
        spec = spec_of(Spec, case)
        named = _named(final(case.answer), spec, self._config.ignore_case)
        if not named:
            return outcome(False, "names no option, or it is not clear which")
        right = sorted(named) == sorted(spec.right)
        return outcome(right, f"chose {', '.join(sorted(named))}")

    async def close(self) -> None:
        """Nothing is held."""


def _named(said: str, spec: Spec, ignore_case: bool) -> list[str]:
    """Letters of the options that an answer names; [] where it names anything else besides."""
    letters = ascii_uppercase[: len(spec.options)]
    texts = {" ".join(text.split()).casefold(): letter for letter, text in zip(letters, spec.options, strict=True)}
    plain = " ".join(said.split())
    if plain.casefold() in texts:
        return [texts[plain.casefold()]]
    upper = plain.upper() if ignore_case else plain
    found = _LETTER.fullmatch(upper)
    if found and found[1] in letters:
        text = plain[found.start(2) :].casefold() if found[2] else ""
        return [found[1]] if not text or texts.get(text) == found[1] else _listed(upper, letters)
    return _listed(upper, letters)


def _listed(upper: str, letters: str) -> list[str]:
    parts = [part.strip("()[].:") for part in _LIST.split(re.sub(r"\bAND\b", ",", upper)) if part]
    if len(parts) == 1:
        parts = list(parts[0])
    sound = all(part in letters and len(part) == 1 for part in parts)
    return parts if sound else []


def build(config: Config, given: Given) -> Choice:
    """A grader; needs nothing."""
    return Choice(config)
