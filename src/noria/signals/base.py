"""What the signal files share: the configuration base and statistics over known rewards.

A signal only annotates: it turns rewards, log-probabilities or spans into advantages, weights or a choice of
groups, in float64, and never touches a model. Every file has `SLOT`, `Config` and `build(config)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

#: One group's rewards (None: unknown) -> one advantage per rollout.
Advantage: TypeAlias = Callable[[Sequence[float | None]], Floats]


class SignalConfig(BaseModel):
    """Frozen, and refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def known(rewards: Sequence[float | None]) -> tuple[Bools, Floats]:
    """Which rewards are known [G] and their values [K] in float64.

    Raises:
        ValueError: a reward that is NaN or infinite (unknown is None, never NaN).
    """
    mask = np.array([reward is not None for reward in rewards], dtype=np.bool_)
    values = np.array([reward for reward in rewards if reward is not None], dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"rewards must be finite, or None for unknown: got {list(rewards)}")
    return mask, values


def flat(values: Floats) -> bool:
    """Whether rewards carry no signal: fewer than two, or equal up to float64 rounding."""
    if len(values) < 2:
        return True
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def over_known(rewards: Sequence[float | None], advantage: Callable[[Floats], Floats]) -> Floats:
    """Apply `advantage` to the known rewards; unknown ones and groups without signal get exactly 0."""
    mask, values = known(rewards)
    out = np.zeros(len(mask), dtype=np.float64)
    if not flat(values):
        out[mask] = advantage(values)
    return out


def mean_one(weights: Floats, mask: Bools) -> Floats:
    """Scale `weights` [T] to mean 1 over `mask`, 0 elsewhere: a rollout's total weight does not change.

    If all weights under the mask are 0 they stay 0.
    """
    kept = np.where(mask, weights, 0.0).astype(np.float64)
    total = kept.sum()
    return kept * (mask.sum() / total) if total > 0 else kept
