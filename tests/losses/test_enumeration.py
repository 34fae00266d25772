"""Expected gradients by enumeration over a toy vocabulary, against the exact gradient of a KL."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from loss_batches import counts, make

from noria.losses import kl_ref
from noria.losses.base import Batch
from noria.signals import teacher_k1

THETA = torch.tensor([0.3, -0.2, 0.1, 0.9, -1.1], dtype=torch.float64)
OTHER = torch.tensor([0.0, 0.4, -0.3, 0.2, 0.7], dtype=torch.float64)
OLD = torch.tensor([0.1, 0.5, -0.6, 0.3, 0.2], dtype=torch.float64)


def reverse_kl_gradient(theta: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    free = theta.clone().requires_grad_()
    logp, logq = free.log_softmax(0), other.log_softmax(0)
    (logp.exp() * (logp - logq)).sum().backward()
    return free.grad


def enumerated(theta: torch.Tensor, sampler: torch.Tensor, **streams: torch.Tensor) -> tuple[torch.Tensor, Batch]:
    """One token per vocabulary entry, weighted by the sampler's probability: a sum is an expectation."""
    n = len(theta)
    logp = theta.log_softmax(0)
    zeros, index = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.long)
    fields = {
        "logp": logp, "logp_old": sampler.log_softmax(0), "logp_mu": sampler.log_softmax(0),
        "advantage": zeros, "weight": sampler.softmax(0), "mask": torch.ones(n, dtype=torch.bool),
        "segment": index, "group": index, "route": index,
    }  # fmt: skip
    return logp, Batch(**{**fields, **streams})


def expected_gradient(name: str, theta: torch.Tensor, sampler: torch.Tensor, **options: object) -> torch.Tensor:
    """E_{token ~ sampler}[gradient of the loss at that token], the normaliser fixed to one token."""
    free = theta.clone().requires_grad_()
    streams = {}
    if name == "clipped":
        build = teacher_k1.build(teacher_k1.Config())
        k1 = build(OTHER.log_softmax(0).numpy(), theta.log_softmax(0).numpy())
        streams["advantage"] = torch.from_numpy(k1)
    else:
        streams["logp_ref"] = OTHER.log_softmax(0)
    _, batch = enumerated(free, sampler, **streams)
    output = make(name, **options)(batch, counts(batch))
    output.total.backward()
    return free.grad


def test_k1_policy_gradient_is_the_gradient_of_the_reverse_kl() -> None:
    got = expected_gradient("clipped", THETA, THETA)
    torch.testing.assert_close(got, reverse_kl_gradient(THETA, OTHER), atol=1e-12, rtol=0)


def test_k1_policy_gradient_vanishes_when_the_teacher_is_the_student() -> None:
    signal = teacher_k1.build(teacher_k1.Config())
    assert signal([-1.0, -2.0], [-1.0, -2.0]).tolist() == [0.0, 0.0]


def test_current_reference_stays_exact_on_the_second_mini_batch() -> None:
    """Off-policy, rho times the current k1 is exact; log pi_old instead gives KL(pi, T) - KL(pi, old)."""
    wide = {"eps_low": 0.999, "eps_high": 1e6}
    got = expected_gradient("clipped", THETA, OLD, **wide)
    torch.testing.assert_close(got, reverse_kl_gradient(THETA, OTHER), atol=1e-12, rtol=0)
    free = THETA.clone().requires_grad_()
    build = teacher_k1.build(teacher_k1.Config(adv_ref="old"))
    advantage = torch.from_numpy(build(OTHER.log_softmax(0).numpy(), OLD.log_softmax(0).numpy()))
    _, batch = enumerated(free, OLD, advantage=advantage)
    make("clipped", **wide)(batch, counts(batch)).total.backward()
    biased = reverse_kl_gradient(THETA, OTHER) - reverse_kl_gradient(THETA, OLD)
    torch.testing.assert_close(free.grad, biased, atol=1e-12, rtol=0)


def test_k2_is_the_gradient_of_the_reverse_kl_on_policy() -> None:
    got = expected_gradient("kl_ref", THETA, THETA, estimator="k2")
    torch.testing.assert_close(got, reverse_kl_gradient(THETA, OTHER), atol=1e-12, rtol=0)


@pytest.mark.parametrize("sampler", [THETA, OLD], ids=["on-policy", "off-policy"])
def test_importance_weighted_k3_is_exact_on_and_off_policy(sampler: torch.Tensor) -> None:
    got = expected_gradient("kl_ref", THETA, sampler, estimator="iw_k3")
    torch.testing.assert_close(got, reverse_kl_gradient(THETA, OTHER), atol=1e-12, rtol=0)


def test_v12_the_golden_vector() -> None:
    theta, ref = np.array([0.3, -0.2, 0.1]), np.array([0.0, 0.4, -0.3])
    true = reverse_kl_gradient(torch.from_numpy(theta), torch.from_numpy(ref))
    assert true.tolist() == pytest.approx([0.078887, -0.177233, 0.098346], abs=1e-6)
    free = torch.from_numpy(theta).requires_grad_()
    _, batch = enumerated(free, free.detach(), logp_ref=torch.from_numpy(ref).log_softmax(0))
    make("kl_ref", estimator="k2")(batch, counts(batch)).total.backward()
    torch.testing.assert_close(free.grad, true, atol=1e-12, rtol=0)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_estimators_with_another_gradient_are_refused(estimator: str) -> None:
    with pytest.raises(ValueError, match=rf"got {estimator}.*k2.*iw_k3"):
        kl_ref.Config(estimator=estimator)


def test_v12_why_they_are_refused() -> None:
    free = THETA.clone().requires_grad_()
    logp, p = free.log_softmax(0), THETA.softmax(0)
    k1 = logp - OTHER.log_softmax(0)
    (grad,) = torch.autograd.grad((p * k1).sum(), free, retain_graph=True)
    torch.testing.assert_close(grad, torch.zeros_like(grad), atol=1e-12, rtol=0)
    (grad,) = torch.autograd.grad((p * ((-k1).exp() - 1 + k1)).sum(), free)
    forward = THETA.softmax(0) - OTHER.softmax(0)
    torch.testing.assert_close(grad, forward, atol=1e-12, rtol=0)


def test_group_mean_policy_gradient_is_the_gradient_of_the_expected_reward() -> None:
    reward = torch.tensor([1.0, 0.0, 0.5, 0.0, 1.0], dtype=torch.float64)
    free = THETA.clone().requires_grad_()
    (free.softmax(0) * reward).sum().backward()
    other = THETA.clone().requires_grad_()
    baseline = (THETA.softmax(0) * reward).sum()
    _, batch = enumerated(other, THETA, advantage=reward - baseline)
    make("clipped")(batch, counts(batch)).total.backward()
    torch.testing.assert_close(other.grad, -free.grad, atol=1e-12, rtol=0)
