"""KL to the frozen reference taken from the reward: R - coef * sum of an estimator over the generated tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Floats, Played, SignalConfig

SLOT = "reward"
SOURCE = "InstructGPT 2203.02155; estimators: Schulman, Approximating KL divergence"


class Config(SignalConfig):
    """How much, and by which estimator. A reward is no loss: here all three estimate the same KL."""

    coef: float = Field(gt=0, description="Reward per nat (HMPO's launcher: 0.001).", examples=[0.1])
    estimator: Literal["k1", "k2", "k3"] = Field(
        description="k1: log mu - log pi_ref (unbiased). k2: half its square (biased). k3: unbiased and never below 0.",
        examples=["k3"],
    )
    log_ratio_bound: float = Field(default=20.0, gt=0, description="Numerical guard of k3: |log ratio| is cut here.")


class KlPenalty:
    """Built group reward. It compares what sampled, mu, with the reference."""

    needs_reference = True

    def __init__(self, config: Config) -> None:
        self.config = config

    def shape(self, rewards: Sequence[float | None], group: Sequence[Played]) -> list[float | None]:
        return [
            None
            if reward is None
            else reward - self.config.coef * float(self.estimate(played.logp, played.logp_ref).sum())
            for reward, played in zip(rewards, group, strict=True)
        ]

    def estimate(self, logp: Floats, logp_ref: Floats) -> Floats:
        """The estimator per token [n]."""
        k1 = np.asarray(logp, dtype=np.float64) - logp_ref
        if self.config.estimator == "k1":
            return k1
        if self.config.estimator == "k2":
            half: Floats = 0.5 * np.square(k1)
            return half
        return np.exp(np.clip(-k1, -self.config.log_ratio_bound, self.config.log_ratio_bound)) - 1 + k1


def build(config: Config) -> KlPenalty:
    """The group reward for one recipe entry."""
    return KlPenalty(config)
