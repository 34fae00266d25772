"""Drops tokens of negative advantage whose push down would take most entropy, compared over the batch (Clip_B)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Floats, SignalConfig, Tokens

SLOT = "weight"
SOURCE = "entropy dynamics 2602.03392 (Clip_B)"
#: It reads advantages, so it weighs reinforcement terms alone.
FAMILY: Literal["rl", "opd", ""] = "rl"


class Config(SignalConfig):
    """How far below the mean a token has to be."""

    mu: float = Field(
        default=2.5,
        ge=0,
        description="Standard deviations of S below its mean from which a token is dropped (Trinity: 2.5).",
    )


class ClipB:
    """Built token weight over a whole batch: 0 on the tokens that are dropped, 1 on all others."""

    family: Literal["rl", "opd", ""] = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config

    def weigh_batch(self, batch: Sequence[Tokens]) -> list[Floats]:
        """Weights [T] of each rollout. Mean and deviation of S (population) are over all action tokens of the batch."""
        slopes = [
            np.where(tokens.mask, discriminant(np.where(tokens.mask, tokens.logp_old, 0.0), tokens.entropy), 0.0)
            for tokens in batch
        ]
        every = np.concatenate([s[tokens.mask] for s, tokens in zip(slopes, batch, strict=True)] or [np.zeros(0)])
        bound = every.mean() - self.config.mu * every.std() if len(every) else 0.0
        return [
            np.where(tokens.mask & ~((tokens.advantage < 0) & (s < bound)), 1.0, 0.0)
            for s, tokens in zip(slopes, batch, strict=True)
        ]


def discriminant(logp: Floats, entropy: Floats) -> Floats:
    """S = p (H + log p) [T]: the entropy falls by S for each unit that the logit of the sampled token rises."""
    found: Floats = np.exp(logp) * (entropy + logp)
    return found


def build(config: Config) -> ClipB:
    """The token weight for one recipe entry."""
    return ClipB(config)
