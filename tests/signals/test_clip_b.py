"""Clip_B: its number is the slope of the entropy, and it drops what it says and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from noria.signals import clip_b
from noria.signals.base import Tokens

RNG = np.random.default_rng(6)


def entropy(logits: np.ndarray) -> float:
    p = np.exp(logits - logits.max())
    p /= p.sum()
    return float(-(p * np.log(p)).sum())


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_the_number_is_minus_the_slope_of_the_entropy(scale: float) -> None:
    """dH / dz_y = -S, by differences."""
    logits, step = RNG.normal(size=7) * scale, 1e-6
    for y in range(7):
        up, down = logits.copy(), logits.copy()
        up[y], down[y] = up[y] + step, down[y] - step
        logp = logits[y] - np.log(np.exp(logits).sum())
        got = clip_b.discriminant(np.array([logp]), np.array([entropy(logits)]))
        assert -got[0] == pytest.approx((entropy(up) - entropy(down)) / (2 * step), abs=1e-8)


def rollout(n: int, advantage: float) -> Tokens:
    logp, mask = -RNG.exponential(2.0, n), RNG.random(n) < 0.8
    mask[0] = True
    return Tokens(mask, (), logp, logp, (), np.full(n, advantage), RNG.random(n) * 2)


def test_only_tokens_far_below_the_mean_with_a_negative_advantage_are_dropped() -> None:
    batch = [rollout(n, advantage) for n, advantage in ((40, -1.0), (25, 0.7), (60, -0.2), (9, 0.0))]
    every = [
        np.exp(t.logp_old[i]) * (t.entropy[i] + t.logp_old[i]) for t in batch for i in range(len(t.mask)) if t.mask[i]
    ]
    mean = sum(every) / len(every)
    deviation = (sum((s - mean) ** 2 for s in every) / len(every)) ** 0.5
    dropped = 0
    got = clip_b.build(clip_b.Config(mu=1.0)).weigh_batch(batch)
    for weights, t in zip(got, batch, strict=True):
        for i, weight in enumerate(weights):
            s = np.exp(t.logp_old[i]) * (t.entropy[i] + t.logp_old[i])
            low = t.mask[i] and t.advantage[i] < 0 and s - mean < -deviation
            assert weight == (1.0 if t.mask[i] and not low else 0.0)
            dropped += bool(low)
    assert dropped > 3
    assert sum(float(w.sum()) for w in clip_b.build(clip_b.Config()).weigh_batch(batch)) > len(every) - dropped


def test_equal_tokens_and_no_tokens_lose_nothing() -> None:
    same = Tokens(np.ones(4, dtype=bool), (), np.zeros(4) - 1, np.zeros(4) - 1, (), np.zeros(4) - 1, np.ones(4))
    assert clip_b.build(clip_b.Config(mu=0.0)).weigh_batch([same])[0].tolist() == [1.0] * 4
    assert clip_b.build(clip_b.Config()).weigh_batch([]) == []
    nothing = Tokens(np.zeros(2, dtype=bool), (), *(np.zeros(2),) * 2, (), np.zeros(2), np.zeros(2))
    assert clip_b.build(clip_b.Config()).weigh_batch([nothing])[0].tolist() == [0.0, 0.0]
