"""The clipped surrogate against a naive walk in plain Python."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from loss_batches import counts, global_batch, gradients, make

from noria.losses.base import Batch


def naive(batch: Batch, low: float, high: float, dual: float | None, ratio: str) -> float:
    """Token-mean of the weighted surrogate."""
    rows = [{k: v[t].item() for k, v in batch.streams().items() if v.dim() == 1} for t in range(len(batch.logp))]
    rows = [row for row in rows if row["mask"]]
    total = 0.0
    for row in rows:
        own = [r["logp"] - r["logp_old"] for r in rows if r["segment"] == row["segment"]]
        log_ratio = {
            "token": row["logp"] - row["logp_old"],
            "sequence_mean": sum(own) / len(own),
            "sequence_sum": sum(own),
        }[ratio]
        rho, a = math.exp(log_ratio), row["advantage"]
        loss = -min(rho * a, min(max(rho, 1 - low), 1 + high) * a)
        if dual is not None and a < 0:
            loss = min(loss, dual * abs(a))
        total += loss * row["weight"]
    return total / len(rows)


@pytest.mark.parametrize("ratio", ["token", "sequence_mean", "sequence_sum"])
@pytest.mark.parametrize("dual", [None, 1.4])
@pytest.mark.parametrize("clip", [(0.2, 0.2), (0.2, 0.28)])
def test_equals_the_naive_walk(ratio: str, dual: float | None, clip: tuple[float, float]) -> None:
    batch = global_batch(seed=3, scale=0.5)
    loss = make("clipped", eps_low=clip[0], eps_high=clip[1], dual_clip=dual, ratio=ratio)
    got = loss(batch, counts(batch)).value
    assert float(got.detach()) == pytest.approx(naive(batch, *clip, dual, ratio), abs=1e-12)


@pytest.mark.parametrize("ratio", ["sequence_mean", "sequence_sum"])
def test_sequence_ratio_does_not_depend_on_the_partition(ratio: str, batch: Batch) -> None:
    loss = make("clipped", ratio=ratio, aggregate="sequence")
    value, grad = gradients(loss, batch, [batch], counts(batch))
    parts = [batch.select(batch.segment == i) for i in (4, 1, 0, 3, 2)]
    other, other_grad = gradients(loss, batch, parts, counts(batch))
    assert other == pytest.approx(value, abs=1e-12)
    torch.testing.assert_close(other_grad, grad, atol=1e-12, rtol=0)


def test_sequence_ratio_refuses_a_cut_rollout(batch: Batch) -> None:
    half = batch.select(torch.arange(15))
    with pytest.raises(ValueError, match="whole in one micro-batch"):
        make("clipped", ratio="sequence_mean")(half, counts(batch))


def test_gspo_gradient_is_that_of_the_sequence_objective() -> None:
    """One advantage per rollout, no clip: d/dlogp of -(1/S) sum_i rho_i A_i, rho_i = exp(mean log-ratio)."""
    batch = global_batch(scale=0.05)
    advantage = torch.tensor([1.0, -0.5, 2.0, -1.0, 0.3], dtype=torch.float64)[batch.segment]
    batch = replace(batch, advantage=advantage, weight=torch.ones_like(batch.weight))
    _, grad = gradients(make("clipped", ratio="sequence_mean", aggregate="sequence"), batch, [batch], counts(batch))
    value = batch.logp.new_zeros(())
    for i in range(5):
        own = (batch.segment == i) & batch.mask
        rho = (batch.logp[own] - batch.logp_old[own]).mean().exp()
        value = value - rho * advantage[batch.segment == i][0] / 5
    (expected,) = torch.autograd.grad(value, batch.logp)
    torch.testing.assert_close(grad[: len(expected)], expected, atol=1e-12, rtol=0)


def single(log_ratio: float, advantage: float, **options: object) -> tuple[float, float, dict[str, float]]:
    logp = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    one, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.long)
    batch = Batch(
        logp=logp, logp_old=logp.detach() - log_ratio, logp_mu=logp.detach(), advantage=one * advantage,
        weight=one, mask=one.bool(), segment=zero, group=zero, route=zero,
    )  # fmt: skip
    output = make("clipped", **options)(batch, counts(batch))
    output.value.backward()
    return float(output.value.detach()), float(logp.grad), {k: float(v) for k, v in output.metrics.items()}


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "slope"),
    [
        (1.0, 1.0, -1.0, -1.0),
        (1.3, 1.0, -1.28, 0.0),
        (1.25, 1.0, -1.25, -1.25),
        (0.7, 1.0, -0.7, -0.7),
        (0.7, -1.0, 0.8, 0.0),
        (0.85, -1.0, 0.85, 0.85),
        (5.0, -1.0, 5.0, 5.0),
    ],
)
def test_where_the_gradient_stops(ratio: float, advantage: float, value: float, slope: float) -> None:
    got, grad, metrics = single(math.log(ratio), advantage, eps_low=0.2, eps_high=0.28)
    assert got == pytest.approx(value, abs=1e-12)
    assert grad == pytest.approx(slope, abs=1e-12)
    assert metrics["clip_frac"] == (1.0 if slope == 0 else 0.0)


def test_dual_clip_bounds_the_case_that_min_clip_leaves_open() -> None:
    value, grad, metrics = single(math.log(50.0), -2.0, dual_clip=10.0)
    assert (value, grad, metrics["clip_frac"]) == (20.0, 0.0, 1.0)
    assert single(math.log(9.0), -2.0, dual_clip=10.0)[0] == pytest.approx(18.0)
    assert single(math.log(50.0), 2.0, dual_clip=10.0)[0] == pytest.approx(-2.4)


def test_metrics_name_ratio_and_kl() -> None:
    _, _, metrics = single(math.log(1.1), 1.0)
    assert metrics["ratio_mean"] == metrics["ratio_max"] == pytest.approx(1.1)
    assert metrics["approx_kl"] == pytest.approx(0.1 - math.log(1.1))


def test_without_an_update_the_ratio_is_one_and_nothing_is_clipped(batch: Batch) -> None:
    fresh = replace(batch, logp_old=batch.logp.detach())
    metrics = make("clipped")(fresh, counts(fresh)).metrics
    assert float(metrics["ratio_mean"]) == pytest.approx(1.0, abs=1e-12)
    assert float(metrics["ratio_max"]) == 1.0
    assert float(metrics["clip_frac"]) == float(metrics["approx_kl"]) == 0.0


@pytest.mark.parametrize("bad", [{"eps_low": 0.0}, {"eps_low": 1.0}, {"dual_clip": 1.0}, {"ratio": "gspo"}])
def test_constants_that_cannot_be_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        make("clipped", **bad)
