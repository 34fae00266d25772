"""The student's own moving average as a teacher that scores tokens."""

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
    """How it moves: teacher = decay * teacher + (1 - decay) * student."""

    type: Literal["ema"] = "ema"
    decay: float = Field(
        default=0.995, ge=0, lt=1, description="share of itself that it keeps (TT-OPD 2605.02943: 0.995)"
    )
    every: int = Field(default=5, ge=1, description="steps between two moves (TT-OPD: 5)")
    copy_every: int = Field(
        default=0,
        ge=0,
        description="steps between hard copies; 0 = never (TT-OPD copies every 30 and blames it for collapse)",
    )


class Ema(Moving):
    """Built teacher."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def follow(self, step: int, student: Student) -> None:
        if self.config.copy_every and step % self.config.copy_every == 0:
            self.copy(student)
        elif step % self.config.every == 0:
            for name, tensor in student().items():
                if tensor.is_floating_point():
                    self.tensors[name].mul_(self.config.decay).add_(tensor, alpha=1 - self.config.decay)


def build(config: Config) -> Ema:
    """The teacher of a recipe's table."""
    return Ema(config)
