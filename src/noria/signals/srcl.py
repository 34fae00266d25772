"""Short rewrites of the student's own answers, verified, as targets of cross entropy (SRCL, goes with DCE)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from noria.core.types import Outcome
from noria.signals.base import SignalConfig

SLOT = "rewrite"
SOURCE = "DCE + SRCL 2609.30652"


class Config(SignalConfig):
    """How rewrites are asked for. They never see the gold solution."""

    prompt: str = Field(
        default="Write this answer again, correct and shorter:\n{answer}",
        description="What the student is asked, {answer} being its own answer; the task's prompt stands before it.",
    )
    per_step: int = Field(default=4, ge=1, description="Rewrites tried per step at most (4: ours).")
    max_new_tokens: int = Field(default=64, ge=1, description="Tokens of a rewrite at most.")


class Srcl:
    """Built rewriter."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.per_step, self.max_new_tokens = config.per_step, config.max_new_tokens

    def ask(self, answer: str) -> str:
        """What follows the task's prompt."""
        return self.config.prompt.replace("{answer}", answer)

    @staticmethod
    def accepts(rewrite: Sequence[int], answer: Sequence[int], ended: bool, valid: bool, outcome: Outcome) -> bool:
        """Whether a rewrite is a target: shorter, ended by itself, well-formed and correct."""
        return len(rewrite) < len(answer) and ended and valid and outcome.solved


def build(config: Config) -> Srcl:
    """The rewriter for one recipe entry."""
    return Srcl(config)
