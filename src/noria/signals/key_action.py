"""Token weight kappa > 1 on tokens of key actions, renormalised to mean 1 over the action tokens (Flash)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Floats, SignalConfig, Tokens, mean_one

SLOT = "weight"
SOURCE = "Flash loop: advantage of the trajectory times a weight of key actions"
#: It is about rewards, so it weighs reinforcement terms alone.
FAMILY: Literal["rl", "opd", ""] = "rl"


class Config(SignalConfig):
    """How much more a key action counts."""

    kappa: float = Field(
        default=2.0,
        ge=1,
        description="Weight of key-action tokens before renormalising; 1 is off (2: our choice).",
    )


class KeyActionWeight:
    """Built token weight."""

    family: Literal["rl", "opd", ""] = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, mask: Sequence[int], spans: Sequence[tuple[int, int]]) -> Floats:
        """Action mask [T] and half-open token spans of the key actions -> weights [T], 0 off the mask.

        Overlapping spans count once; a span that holds no action token changes nothing.

        Raises:
            ValueError: a span that leaves the rollout.
        """
        action = np.asarray(mask, dtype=np.bool_)
        weights = np.ones(len(action), dtype=np.float64)
        for start, end in spans:
            if not 0 <= start <= end <= len(action):
                raise ValueError(f"key-action span must lie in [0, {len(action)}]: got {start}:{end}")
            weights[start:end] = self.config.kappa
        return mean_one(weights, action)

    def weigh(self, tokens: Tokens) -> Floats:
        return self(tokens.mask.astype(int).tolist(), tokens.spans)


def build(config: Config) -> KeyActionWeight:
    """The token weight for one recipe entry."""
    return KeyActionWeight(config)
