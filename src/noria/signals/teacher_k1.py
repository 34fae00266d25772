"""Distillation advantage log pi_T - log pi_ref on sampled tokens: on-policy reverse KL as a reward (MOPD)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Floats, SignalConfig

SLOT = "token_advantage"
SOURCE = "MOPD eq. 5-9"


class Config(SignalConfig):
    """Which policy the teacher is compared with."""

    adv_ref: Literal["current", "old"] = Field(
        default="current",
        description=(
            "current: log pi of this very mini-batch, the caller recomputes the advantage for each (exact). "
            "old: log pi_old, as MOPD's equation 7 has it. Identical on the first mini-batch."
        ),
    )


class TeacherK1:
    """Built advantage; `config.adv_ref` tells the caller which log-probabilities to hand in."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, logp_teacher: Sequence[float] | Floats, logp_ref: Sequence[float] | Floats) -> Floats:
        """Log-probabilities [T] in nats of the sampled tokens -> advantages [T] = -k1."""
        teacher = np.asarray(logp_teacher, dtype=np.float64)
        return teacher - np.asarray(logp_ref, dtype=np.float64)


def monitors(k1: Floats, mask: Sequence[int]) -> dict[str, float]:
    """Means over the action tokens of one route, k1 = log pi - log pi_T.

    `abs` is mean |k1| (a monitor, not a KL), `k1` its mean, `k3` the mean of exp(-k1) - 1 + k1.
    """
    kept = np.asarray(k1, dtype=np.float64)[np.asarray(mask, dtype=np.bool_)]
    if not len(kept):
        return {"abs": 0.0, "k1": 0.0, "k3": 0.0}
    # the guard only keeps exp finite; 700 is the largest argument that float64 can take
    k3 = np.exp(np.minimum(-kept, 700.0)) - 1 + kept
    return {"abs": float(np.abs(kept).mean()), "k1": float(kept.mean()), "k3": float(k3.mean())}


def build(config: Config) -> TeacherK1:
    """The advantage for one recipe entry."""
    return TeacherK1(config)
