"""reasoning-gym's own scorer of each of its datasets; in a child process, since some of them search."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.types import Outcome
from noria.graders._children import Children, TooSlow
from noria.graders.base import ByAnswer, Case, Example, Given, need_children, outcome, spec_of

SOURCE = "reasoning-gym, arXiv:2505.24760"
NEEDS = ("children",)


class Config(Checked):
    """How long a scorer may take and what counts as right."""

    timeout_s: float = Field(default=10.0, gt=0, le=600, description="processor seconds of one score; then unknown")
    partial: bool = Field(default=False, description="whether a score between 0 and 1 is the reward; else it is 0")
    max_chars: int = Field(default=20_000, ge=1, description="a longer answer is wrong unread")


class Spec(Checked):
    """The entry of a dataset, as the generator made it."""

    dataset: str = Field(min_length=1, description="name of the dataset")
    entry: dict[str, Any] = Field(description="question, answer and metadata")


EXAMPLES = (
    Example(
        {"dataset": "gcd", "entry": {"question": "GCD of 12 and 18?", "answer": "6", "metadata": {}}},
        ("6",),
        ("7", ""),
    ),
)


class Gym(ByAnswer):
    """See the module."""

    def __init__(self, config: Config, children: Children) -> None:
        self._config, self._children = config, children

    async def grade(self, case: Case) -> Outcome:
        """1 for full marks; the part `score` is what the scorer says.

        Raises:
            UserError: there is no such dataset.
        """
        spec, config = spec_of(Spec, case), self._config
        said = case.answer.strip()
        if not said or len(said) > config.max_chars:
            return outcome(False, "no answer" if not said else f"longer than {config.max_chars} characters")
        asked = {"dataset": spec.dataset, "entry": spec.entry, "answer": said}
        try:
            score = await self._children.run("_gym", asked, config.timeout_s)
        except TooSlow as fault:
            return Outcome.unknown(f"gym: {fault}")
        if score is None:
            raise UserError(f"spec.dataset must be one of reasoning-gym's: got {spec.dataset!r} - see its gallery")
        if score == "fault":
            return outcome(False, "the scorer cannot read it", {"score": 0.0})
        reward = score if config.partial else float(score >= 1.0)
        return Outcome(reward, {"score": score}, "full marks" if score >= 1.0 else f"score {score:.2f}")

    def harmless(self, case: Case) -> str:
        """The entry's answer."""
        return str(spec_of(Spec, case).entry.get("answer") or 0)

    async def close(self) -> None:
        """The children are the router's."""


def build(config: Config, given: Given) -> Gym:
    """A grader. Raises UserError where no child processes are given."""
    return Gym(config, need_children(given, "gym"))
