"""The comparison of mathematical expressions, in a child process: sympy may take for ever."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from latex2sympy2_extended import NormalizationConfig
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

_DELIMITED = re.compile(r"^\$.*\$$|^\\\(.*\\\)$|^\\\[.*\\\]$", re.DOTALL)
_EQUALS = re.compile(r"(?<![\\<>!:])=")
_NAME = re.compile(r"\\?[A-Za-z]\w*(?:\([a-z]\))?")
#: `\{` is needed for sets, and people leave it away.
_BARE_SET = re.compile(r"^\{(.*)\}$", re.DOTALL)


def warm() -> None:
    """Read and compare a few expressions: the parser builds its tables as it meets things for the first time."""
    for text in ("1/2", r"\frac{1}{2}", "(x+1)(x-1)", r"\{1,2\}", "(1,2)", "x=1"):
        verify(list(read(text)), list(read(text)), timeout_seconds=None)


def work(payload: dict[str, Any]) -> str:
    """ "equal", "not equal", "no expression" (the answer), or "unreadable" (every accepted one)."""
    wanted = [found for text in payload["accepted"] if (found := read(text))]
    if not wanted:
        return "unreadable"
    digits = int(payload["digits"])

    def meets(text: str) -> bool:
        said = list(read(text))
        return bool(said) and any(
            verify(list(gold), said, float_rounding=digits, strict=True, timeout_seconds=None) for gold in wanted
        )

    answer = payload["answer"]
    if not any("=" in text for text in payload["accepted"]) and "," not in answer:
        # Of "x = 2 + 3 = 5" the last part is the answer; what stands before it is a name, or the same value. The
        # problem said again, "2^x = 8", is no answer, even where its right side happens to be one.
        *before, answer = _EQUALS.split(answer.strip().strip("$"))
        if not all(_NAME.fullmatch(part.strip()) or meets(part) for part in before):
            return "an equation, not a value"
    if not read(answer):
        return "no expression"
    return "equal" if meets(answer) else "not equal"


@lru_cache(maxsize=512)
def read(text: str) -> tuple[Any, ...]:
    """The expressions that math-verify finds in a text that is one expression, () for none."""
    text = text.strip().replace("**", "^")
    if not _DELIMITED.match(text):
        text = "$" + _BARE_SET.sub(r"\\{\1\\}", text) + "$"
    settings = NormalizationConfig(
        basic_latex=True, units=True, malformed_operators=True, nits=True, boxed="none", equations=True
    )
    targets = (LatexExtractionConfig(normalization_config=settings, boxed_match_priority=-1), ExprExtractionConfig())
    return tuple(parse(text, targets, fallback_mode="no_fallback", parsing_timeout=None))
