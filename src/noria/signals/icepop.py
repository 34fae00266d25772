"""Importance weight pi_old / mu where it lies in [low, high], 0 elsewhere: masks instead of truncating (IcePop)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from noria.signals.base import Floats, SignalConfig, Tokens

SLOT = "weight"
SOURCE = "IcePop (Ring-1T 2510.18855), slime variant"
#: It corrects the engine's policy to the trainer's; a phase has one such correction.
CORRECTS = True


class Config(SignalConfig):
    """The band of ratios that count."""

    low: float = Field(default=0.5, ge=0, description="Smallest ratio that counts (Ring-1T: 0.5).")
    high: float = Field(default=5.0, gt=0, description="Largest ratio that counts (Ring-1T: 5).")

    @model_validator(mode="after")
    def _is_a_band(self) -> Config:
        if self.low >= self.high:
            raise ValueError(f"low must be < high: got {self.low} and {self.high} - 0.5 and 5 are IcePop's")
        return self


class IcePop:
    """Built token weight."""

    family: Literal["rl", "opd", ""] = ""

    def __init__(self, config: Config) -> None:
        self.config = config

    def weigh(self, tokens: Tokens) -> Floats:
        gap = np.where(tokens.mask, tokens.logp_old - tokens.logp_mu, 0.0)
        # the logarithms are compared: exp cannot overflow
        inside = (gap >= np.log(max(self.config.low, 1e-300))) & (gap <= np.log(self.config.high))
        return np.where(inside & tokens.mask, np.exp(np.where(inside, gap, 0.0)), 0.0)


def build(config: Config) -> IcePop:
    """The token weight for one recipe entry."""
    return IcePop(config)
