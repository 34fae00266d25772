"""The student itself, as it stood at the start of the phase or a few steps ago, as a teacher that scores tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.teachers._scoring import Moving, Student

#: It has probabilities, so it can be the route of a distillation.
SCORES_TOKENS = True
#: It is in this process, so it has hidden states for losses over the whole vocabulary.
GIVES_STATES = True


class Config(Checked):
    """How often it is taken anew."""

    type: Literal["synced"] = "synced"
    every: int = Field(default=0, ge=0, description="steps between copies; 0 = one copy, at the start of the phase")


class Synced(Moving):
    """Built teacher."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every

    def follow(self, step: int, student: Student) -> None:
        if self.every and step % self.every == 0:
            self.copy(student)


def build(config: Config) -> Synced:
    """The teacher of a recipe's table."""
    return Synced(config.every)
