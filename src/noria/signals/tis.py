"""Truncated importance weight min(pi_old / mu, C): corrects the engine's policy to the trainer's (TIS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Floats, SignalConfig, Tokens

SLOT = "weight"
SOURCE = "Yao et al. 2025, truncated importance sampling"
#: It corrects the engine's policy to the trainer's; a phase has one such correction.
CORRECTS = True


class Config(SignalConfig):
    """Where the ratio is truncated."""

    cap: float = Field(default=2.0, gt=0, description="C, the largest weight of a token (2 in the TIS reference).")


class Tis:
    """Built token weight."""

    family: Literal["rl", "opd", ""] = ""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, logp_old: Sequence[float] | Floats, logp_mu: Sequence[float] | Floats) -> Floats:
        """Log-probabilities [T] in nats of the old policy and of the engine -> weights [T] in [0, C]."""
        ratio = np.asarray(logp_old, dtype=np.float64) - np.asarray(logp_mu, dtype=np.float64)
        # cut the logarithm, not the ratio: exp cannot overflow
        return np.exp(np.minimum(ratio, np.log(self.config.cap)))

    def weigh(self, tokens: Tokens) -> Floats:
        return self(tokens.logp_old, tokens.logp_mu)


def build(config: Config) -> Tis:
    """The token weight for one recipe entry."""
    return Tis(config)
