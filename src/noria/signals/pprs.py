"""Progress as a potential: each turn earns gamma * Phi(next) - Phi(now), Phi the share of the checks met (PPRS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Floats, Played, SignalConfig, met

SLOT = "reward"
SOURCE = "Tev, PPRS (form and constants: ours); potential-based shaping: Ng, Harada and Russell 1999"
#: Turns are credited in units of the reward: an advantage that rescales it does not fit.
PER_TURN = True


class Config(SignalConfig):
    """What the potential is, and what it is at the end, which decides what is optimal."""

    terminal: Literal["zero", "progress"] = Field(
        description="zero: Phi = 0 at the end, what is optimal stays so and credit only moves between turns. progress: "
        "the progress reached is added to the return, so that tasks nobody solves can be learnt.",
        examples=["zero", "progress"],
    )
    gamma: float = Field(default=1.0, gt=0, le=1, description="Discount per turn of what is earned (1: ours).")
    coef: float = Field(default=1.0, gt=0, description="Reward per unit of progress (1: ours).")
    parts: tuple[str, ...] = Field(
        default=(), strict=False, description="The verifier's measures whose mean is Phi; [] = all that it gave."
    )


class Pprs:
    """Built group reward. The outcome's own reward is paid at the end, not discounted."""

    needs_reference, needs_states = False, True

    def __init__(self, config: Config) -> None:
        self.config = config

    def potentials(self, played: Played) -> Floats:
        """coef * Phi [n + 1] before each of the n messages and at the end."""
        c = self.config
        phi = np.array([met(s.reward or 0.0, s.parts, c.parts) for s in played.states], dtype=np.float64)
        if c.terminal == "zero":
            phi[-1] = 0.0
        return c.coef * phi

    def earned(self, played: Played) -> Floats:
        """What each turn earns, F_t = gamma * Phi_{t+1} - Phi_t [n]."""
        phi = self.potentials(played)
        found: Floats = self.config.gamma * phi[1:] - phi[:-1]
        return found

    def to_go(self, played: Played) -> Floats:
        """What is earned from each turn on, the sum over k >= t of gamma^(k - t) F_k, which is
        gamma^(n - t) Phi_n - Phi_t [n]."""
        phi = self.potentials(played)
        n = len(phi) - 1
        found: Floats = self.config.gamma ** np.arange(n, 0, -1) * phi[-1] - phi[:-1]
        return found

    def shape(self, rewards: Sequence[float | None], group: Sequence[Played]) -> list[float | None]:
        """Rewards with what is earned from the first turn on; unknown where no progress could be measured."""
        return [
            None if reward is None or len(played.states) < 2 else reward + float(self.to_go(played)[0])
            for reward, played in zip(rewards, group, strict=True)
        ]

    def turns(self, played: Played) -> Floats:
        """By how much the return from each turn on differs from that of the whole rollout [n]."""
        to_go = self.to_go(played)
        found: Floats = to_go - to_go[0]
        return found


def build(config: Config) -> Pprs:
    """The group reward for one recipe entry."""
    return Pprs(config)
