"""The student with the solution before its eyes: a teacher that scores tokens and reads more than the student."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.teachers.synced import Synced

#: It has probabilities, so it can be the route of a distillation.
SCORES_TOKENS = True
#: It is in this process, so it has hidden states for losses over the whole vocabulary.
GIVES_STATES = True


class Config(Checked):
    """How often it is taken anew. The world's own reference solution is put at the start of its assistant turn."""

    type: Literal["privileged"] = "privileged"
    every: int = Field(
        default=0, ge=0, description="steps between copies; 0 = one copy, at the start of the phase (DCE: every round)"
    )


class Privileged(Synced):
    """Built teacher."""

    gold = True


def build(config: Config) -> Privileged:
    """The teacher of a recipe's table."""
    return Privileged(config.every)
