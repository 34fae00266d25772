"""Regular expressions: the answer holds what it must, holds nothing that it must not, or is of a form as a whole."""

from __future__ import annotations

import re

from pydantic import Field, field_validator, model_validator

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders._children import Children, TooSlow
from noria.graders.base import ByBlank, Case, Example, Given, need_children, outcome, spec_of

NEEDS = ("children",)


class Config(Checked):
    """How it is searched."""

    timeout_s: float = Field(default=2.0, gt=0, le=600, description="processor seconds of the search; then unknown")
    ignore_case: bool = Field(default=False, description="whether capital and small letters are one")
    lines: bool = Field(default=True, description="whether ^ and $ stand for the ends of lines")
    max_chars: int = Field(default=200_000, ge=1, description="a longer answer is wrong unread")


class Spec(Checked):
    """What a right answer is; one of the three at least."""

    form: str | None = Field(default=None, description="pattern that is the whole answer, without the spaces around it")
    must: tuple[str, ...] = Field(default=(), description="patterns that occur in the answer")
    must_not: tuple[str, ...] = Field(default=(), description="patterns that do not")

    @field_validator("form", "must", "must_not")
    @classmethod
    def _compiles(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        for pattern in (value,) if isinstance(value, str) else value or ():
            try:
                re.compile(pattern)
            except (re.error, RecursionError, OverflowError) as fault:
                raise ValueError(f"{pattern[:40]!r} must be a pattern: {fault}") from fault
        return value

    @model_validator(mode="after")
    def _asks_something(self) -> Spec:
        if self.form is None and not self.must and not self.must_not:
            raise ValueError("form, must or must_not must be given")
        return self


EXAMPLES = (
    Example({"form": r"\d{4}-\d\d-\d\d"}, ("2031-05-02", " 2031-05-02\n"), ("on 2031-05-02", "", "2031-5-2")),
    Example(
        {"must": [r"^# \w", r"\bthanks\b"], "must_not": [r"!", r"(?i)\bbye\b"]},
        ("# Letter\n\nthanks a lot",),
        ("# Letter\n\nthanks!", "thanks", "# Letter", "# Letter\nthanks, Bye"),
    ),
)


class Patterns(ByBlank):
    """See the module."""

    def __init__(self, config: Config, children: Children) -> None:
        self._config, self._children = config, children

    async def grade(self, case: Case) -> Outcome:
        """1 if all patterns are kept; parts hold the share of each of the three lists that is."""
        spec, config = spec_of(Spec, case), self._config
        if len(case.answer) > config.max_chars:
            return outcome(False, f"longer than {config.max_chars} characters")
        flags = (re.IGNORECASE if config.ignore_case else 0) | (re.MULTILINE if config.lines else 0)
        parts: dict[str, float] = {}
        try:
            for name, patterns, text in (
                ("form", (spec.form,) if spec.form is not None else (), case.answer.strip()),
                ("must", spec.must, case.answer),
                ("must_not", spec.must_not, case.answer),
            ):
                if patterns:
                    asked = {"text": text, "patterns": list(patterns), "flags": int(flags), "whole": name == "form"}
                    counts = await self._children.run("_patterns", asked, config.timeout_s)
                    kept = [bool(count) != (name == "must_not") for count in counts]
                    parts[name] = sum(kept) / len(kept)
        except TooSlow as fault:
            return Outcome.unknown(f"patterns: {fault}")
        broken = [name for name, share in parts.items() if share < 1]
        return outcome(not broken, f"breaks {', '.join(broken)}" if broken else "keeps all", parts)

    async def close(self) -> None:
        """The children are the router's."""


def build(config: Config, given: Given) -> Patterns:
    """A grader. Raises UserError where no child processes are given."""
    return Patterns(config, need_children(given, "patterns"))
