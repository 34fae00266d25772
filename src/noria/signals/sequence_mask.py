"""Drops whole rollouts whose mean log(pi_old / mu) leaves a band: engine and trainer disagree on them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Floats, SignalConfig, Tokens

SLOT = "weight"
SOURCE = "sequence-level masked importance sampling, Liu et al. 2025"
#: It corrects the engine's policy to the trainer's; a phase has one such correction.
CORRECTS = True


class Config(SignalConfig):
    """The band of the geometric mean of the ratios."""

    low: float = Field(default=0.5, gt=0, lt=1, description="Smallest geometric mean ratio of a rollout (0.5: ours).")
    high: float = Field(default=2.0, gt=1, description="Largest geometric mean ratio of a rollout (2: ours).")


class SequenceMask:
    """Built token weight: 1 on every token of a rollout, or 0 on every one."""

    family: Literal["rl", "opd", ""] = ""

    def __init__(self, config: Config) -> None:
        self.config = config

    def weigh(self, tokens: Tokens) -> Floats:
        gaps = (tokens.logp_old - tokens.logp_mu)[tokens.mask]
        mean = float(gaps.mean()) if len(gaps) else 0.0
        keep = np.log(self.config.low) <= mean <= np.log(self.config.high)
        return tokens.mask.astype(np.float64) * float(keep)


def build(config: Config) -> SequenceMask:
    """The token weight for one recipe entry."""
    return SequenceMask(config)
