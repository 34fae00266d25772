"""Mathematics: the answer equals the wanted one as an expression, whatever its form; by math-verify in a child process.

Fractions and decimals, LaTeX, sets, intervals, tuples, matrices and equations are compared as sympy reads them. What is
compared is the last `\\boxed{…}`, else what follows the last "answer:", else the whole answer. Several answers in one
are read as one expression, which equals none: nobody gets a point for naming all candidates.
"""

from __future__ import annotations

import re

from pydantic import Field

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders._children import Children, TooSlow
from noria.graders.base import ByAnswer, Case, Example, Given, need_children, outcome, spec_of

SOURCE = "math-verify, github.com/huggingface/Math-Verify"
NEEDS = ("children",)
_ANSWER = re.compile(r"\b(?:final\s+)?answer\s*(?::|is)\s*", re.IGNORECASE)
#: What would only take time until it is killed.
_HUGE = re.compile(r"\d{3,}\s*\)*\s*!|!\s*\)*\s*!|\^\{?\d{6,}")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")


class Config(Checked):
    """How long and how exactly it is compared."""

    timeout_s: float = Field(default=5.0, gt=0, le=600, description="processor seconds of one comparison; then unknown")
    digits: int = Field(default=6, ge=0, le=15, description="decimal places in which decimals must agree")
    max_chars: int = Field(default=400, ge=1, description="a longer answer is wrong unread")


class Spec(Checked):
    """What a right answer is."""

    accepted: tuple[str, ...] = Field(
        min_length=1, description="expressions as LaTeX or plain, of which one must be met"
    )


EXAMPLES = (
    Example(
        {"accepted": ["1/2"]},
        ("0.5", r"\frac{1}{2}", r"so it is \boxed{2/4}", "Answer: 1/2", "x=1/2"),
        ("2", "1/2 or 2", "x+3=1/2"),
    ),
    Example({"accepted": [r"\{1,2\}"]}, (r"\{2,1\}", r"$\{1, 2\}$"), (r"\{1,3\}", "1", "")),
    Example({"accepted": ["(1,2)"]}, ("(1, 2)", r"\left(1,2\right)"), ("(2,1)",)),
    Example({"accepted": ["x^2-1"]}, ("(x-1)(x+1)",), ("x^2+1", r"\boxed{x^2+1} or \boxed{x}")),
)


class Mathematics(ByAnswer):
    """See the module."""

    def __init__(self, config: Config, children: Children) -> None:
        self._config, self._children = config, children

    async def grade(self, case: Case) -> Outcome:
        """1 if the answer equals an accepted one."""
        spec, config = spec_of(Spec, case), self._config
        said = final(case.answer)
        if not said:
            return outcome(False, "no answer")
        if len(said) > config.max_chars:
            return outcome(False, f"longer than {config.max_chars} characters")
        if _HUGE.search(said) and not any("!" in text for text in spec.accepted):
            return outcome(False, "a number too large to be the answer")
        payload = {"accepted": list(spec.accepted), "answer": said, "digits": config.digits}
        try:
            verdict = await self._children.run("_math", payload, config.timeout_s)
        except TooSlow as fault:
            return Outcome.unknown(f"math-verify: {fault}")
        if verdict == "unreadable":
            return Outcome.unknown("math-verify reads none of the accepted answers")
        return outcome(verdict == "equal", str(verdict))

    def harmless(self, case: Case) -> str:
        """The first accepted expression."""
        return spec_of(Spec, case).accepted[0]

    async def close(self) -> None:
        """The children are the router's."""


def final(text: str) -> str:
    """What of an answer counts: the last box, what follows the last "answer:", or all of it."""
    boxes = list(_BOXED.finditer(text))
    if boxes:
        return _braced(text, boxes[-1].end()).strip()
    parts = _ANSWER.split(text)
    said = parts[-1] if len(parts) == 1 else parts[-1].split("\n")[0]
    return said.strip().strip("*").rstrip(".").strip()


def _braced(text: str, at: int) -> str:
    """The text up to the brace that closes the one before `at`; "" where none does."""
    depth = 1
    for end in range(at, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return text[at:end]
    return ""


def build(config: Config, given: Given) -> Mathematics:
    """A grader. Raises UserError where no child processes are given."""
    return Mathematics(config, need_children(given, "maths"))
