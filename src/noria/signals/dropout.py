"""The student reads its rollout with reasoning tokens left out, the teacher reads all of it (Trajectory Dropout)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from noria.signals.base import Bools, SignalConfig

SLOT = "view"
SOURCE = "Trajectory Dropout 2609.33455 (abstract only; the alignment is our own)"


class Config(SignalConfig):
    """How much is left out."""

    rate: float = Field(
        default=0.3, ge=0, lt=1, description="Share of the reasoning tokens left out; 0 = none (0.3: ours)."
    )


class Dropout:
    """Built training view."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def keep(self, mask: Bools, roles: tuple[str, ...], seed: int) -> NDArray[np.int64]:
        """Positions [n] of the tokens that the student reads, ascending.

        Only reasoning that the student sampled is left out: every other token is read. Each kept position stands for
        the same token as before, so a loss at it compares both policies at one token of one rollout.
        """
        drawn = np.random.default_rng(seed).random(len(mask)) < self.config.rate
        reasoning = np.array([role == "think" for role in roles], dtype=np.bool_)
        return np.flatnonzero(~(drawn & reasoning & mask))


def build(config: Config) -> Dropout:
    """The training view for one recipe entry."""
    return Dropout(config)
