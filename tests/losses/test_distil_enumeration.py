"""Distillation and policy-gradient terms: expected gradients by enumeration over toy vocabularies and sequences."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from loss_batches import counts, make
from test_enumeration import OLD, OTHER, THETA, enumerated, reverse_kl_gradient

from noria.losses.base import Batch

WIDE = {"eps_low": 0.999, "eps_high": 1e6}


def expected(name: str, sampler: torch.Tensor, **options: object) -> torch.Tensor:
    free = THETA.clone().requires_grad_()
    _, batch = enumerated(free, sampler, logp_teacher=OTHER.log_softmax(0))
    make(name, **options)(batch, counts(batch)).total.backward()
    assert free.grad is not None
    return free.grad


@pytest.mark.parametrize("sampler", [THETA, OLD], ids=["first", "later"])
def test_k1_policy_gradient_is_exact_on_every_mini_batch(sampler: torch.Tensor) -> None:
    got = expected("k1_pg", sampler, **WIDE)
    torch.testing.assert_close(got, reverse_kl_gradient(THETA, OTHER), atol=1e-12, rtol=0)


def test_against_the_old_policy_the_second_mini_batch_follows_another_objective() -> None:
    got = expected("k1_pg", OLD, adv_ref="old", **WIDE)
    biased = reverse_kl_gradient(THETA, OTHER) - reverse_kl_gradient(THETA, OLD)
    torch.testing.assert_close(got, biased, atol=1e-12, rtol=0)
    torch.testing.assert_close(expected("k1_pg", THETA, adv_ref="old"), reverse_kl_gradient(THETA, OTHER))


@pytest.mark.parametrize(("estimator", "sampler"), [("k2", THETA), ("iw_k3", THETA), ("iw_k3", OLD)])
def test_kl_to_the_teacher_has_the_gradient_of_the_reverse_kl(estimator: str, sampler: torch.Tensor) -> None:
    got = expected("kl_teacher", sampler, estimator=estimator)
    torch.testing.assert_close(got, reverse_kl_gradient(THETA, OTHER), atol=1e-12, rtol=0)


def test_a_divergence_as_an_advantage_would_teach_nothing() -> None:
    """It does not depend on the action, so its expected policy gradient is zero: such recipes are refused."""
    free = THETA.clone().requires_grad_()
    divergence = (THETA.softmax(0) * (THETA.log_softmax(0) - OTHER.log_softmax(0))).sum()
    _, batch = enumerated(free, THETA, advantage=-divergence.expand(5))
    make("clipped")(batch, counts(batch)).total.backward()
    assert free.grad.abs().max() < 1e-12


def test_cispo_is_the_policy_gradient_weighted_by_the_clipped_ratio() -> None:
    advantage = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0]).double()
    free = THETA.clone().requires_grad_()
    _, batch = enumerated(free, OLD, advantage=advantage)
    make("cispo", eps_low=0.3, eps_high=0.5)(batch, counts(batch)).total.backward()
    p, q = THETA.softmax(0), OLD.softmax(0)
    weight = (p / q).clamp(0.7, 1.5)
    jacobian = torch.eye(5).double() - p
    want = -(q[:, None] * weight[:, None] * advantage[:, None] * jacobian).sum(0)
    torch.testing.assert_close(free.grad, want, atol=1e-12, rtol=0)
    assert (weight != p / q).any()
    # No bound: exactly the off-policy gradient of the expected advantage.
    other = THETA.clone().requires_grad_()
    _, batch = enumerated(other, OLD, advantage=advantage)
    make("cispo", eps_high=1e6)(batch, counts(batch)).total.backward()
    exact = -(p[:, None] * advantage[:, None] * jacobian).sum(0)
    torch.testing.assert_close(other.grad, exact, atol=1e-12, rtol=0)


def sequences(gamma: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Expected gradient of k1_pg over all sequences of three tokens, and that of KL(π‖π_T) over whole sequences.

    Both policies are tables: the next token's logits depend on the token before it.
    """
    gen = torch.Generator().manual_seed(7)
    table, teacher = (torch.randn(4, 3, generator=gen).double() for _ in range(2))
    free = table.clone().requires_grad_()
    every = list(itertools.product(range(3), repeat=3))
    logp = torch.stack([_path(free, path) for path in every])
    probability = logp.detach().sum(1).exp()
    length = len(every) * 3
    index = torch.arange(len(every)).repeat_interleave(3)
    flat = logp.reshape(-1)
    zeros = torch.zeros(length).double()
    batch = Batch(
        logp=flat, logp_old=flat.detach(), logp_mu=flat.detach(), advantage=zeros,
        weight=probability.repeat_interleave(3), mask=torch.ones(length, dtype=torch.bool), segment=index, group=index,
        route=index * 0, logp_teacher=torch.stack([_path(teacher, path) for path in every]).reshape(-1),
        position=torch.arange(3).repeat(len(every)),
    )  # fmt: skip
    shuffled = batch.select(torch.randperm(length, generator=gen))
    make("k1_pg", kl_discount=gamma)(shuffled, counts(shuffled)).total.backward()
    exact = table.clone().requires_grad_()
    kl = exact.new_zeros(())
    for path in every:
        mine, theirs = _path(exact, path).sum(), _path(teacher, path).sum()
        kl = kl + mine.exp() * (mine - theirs)
    kl.backward()
    return free.grad, exact.grad


def _path(table: torch.Tensor, path: tuple[int, ...]) -> torch.Tensor:
    before = (3, *path[:-1])
    return torch.stack([table[b].log_softmax(0)[t] for b, t in zip(before, path, strict=True)])


def test_with_a_discount_of_one_it_is_the_gradient_of_the_kl_over_sequences() -> None:
    got, exact = sequences(1.0)
    torch.testing.assert_close(got, exact, atol=1e-12, rtol=0)


def test_without_a_discount_the_states_visited_are_constants() -> None:
    got, exact = sequences(0.0)
    assert (got - exact).abs().max() > 1e-2


def spod(solved: float, log_ratio: float, old: float = -2.0, now: float = -2.0, **options: object) -> float:
    """Gradient by log pi of one token whose teacher says old + log_ratio."""
    logp = torch.tensor([now]).double().requires_grad_()
    one, index = torch.ones(1).double(), torch.zeros(1, dtype=torch.long)
    batch = Batch(
        logp=logp, logp_old=torch.tensor([old]).double(), logp_mu=logp.detach(), advantage=one * 0, weight=one,
        mask=one.bool(), segment=index, group=index, route=index, logp_teacher=torch.tensor([old + log_ratio]).double(),
        solved=one * solved, position=index,
    )  # fmt: skip
    make("spod", **options)(batch, counts(batch)).value.backward()
    return float(logp.grad)


def test_spod_on_a_failed_episode_is_plain_distillation() -> None:
    assert spod(0.0, -3.0) == pytest.approx(3.0) and spod(0.0, 2.0) == pytest.approx(-2.0)


def test_spod_follows_a_teacher_that_likes_what_solved() -> None:
    assert spod(1.0, 2.0) == pytest.approx(-2.0) and spod(1.0, -0.5) == pytest.approx(0.5)


def test_spod_holds_up_what_solved_and_the_teacher_dislikes() -> None:
    sharp = {"sharpness": 200.0}
    # Above the floor: no push at all, neither from the teacher nor from the floor.
    assert spod(1.0, -3.0, now=-1.9, **sharp) == pytest.approx(0.0, abs=1e-6)
    # Below it: pushed up with slope lambda, whatever the teacher says.
    assert spod(1.0, -3.0, now=-2.1, floor=0.7, **sharp) == pytest.approx(-0.7, abs=1e-6)
    assert spod(1.0, -9.0, now=-2.1, floor=0.7, **sharp) == pytest.approx(-0.7, abs=1e-6)
    assert spod(1.0, -3.0, now=-2.1, kappa=0.5, **sharp) == pytest.approx(0.0, abs=1e-6)
    assert spod(1.0, -3.0, now=-2.1 + math.log(0.5), kappa=0.5, **sharp) == pytest.approx(-1.0, abs=1e-6)
    assert spod(1.0, -3.0, now=-2.1, floor=0.0) == 0.0


def test_a_cut_rollout_has_no_return() -> None:
    got = torch.arange(3).double()
    index = torch.zeros(3, dtype=torch.long)
    batch = Batch(
        logp=got, logp_old=got, logp_mu=got, advantage=got, weight=got, mask=torch.ones(3, dtype=torch.bool),
        segment=index, group=index, route=index, logp_teacher=got, position=torch.arange(3),
    )  # fmt: skip
    with pytest.raises(ValueError, match="kl_discount needs every rollout whole"):
        make("k1_pg", kl_discount=0.5)(batch.select(torch.tensor([0, 1])), counts(batch))
    assert replace(batch, weight=got).weight is got
