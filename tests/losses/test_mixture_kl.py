"""Two policies that are trained as one mixture: its optimum, what it is at w = 1, and who gets a gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from loss_batches import Batch, counts, global_batch, make
from test_golden_vectors import of_logits

from noria.core.errors import UserError
from noria.losses.states import Head

GEN = torch.Generator().manual_seed(12)
ANCHOR, SECOND, TEACHER = (torch.randn(4, 9, generator=GEN).double() * 1.5 for _ in range(3))


def of_three(anchor: torch.Tensor, second: torch.Tensor, teacher: torch.Tensor) -> Batch:
    """One token per row of the three logits [N, V]."""
    identity = torch.eye(anchor.shape[1], dtype=torch.float64)
    return replace(of_logits(anchor, teacher), auxiliary=second, auxiliary_head=Head("second", lambda: identity))


def value(weight: float, batch: Batch) -> torch.Tensor:
    return make("mixture_kl", weight=weight)(batch, counts(batch)).value


def gradients(weight: float, anchor: torch.Tensor, second: torch.Tensor, teacher: torch.Tensor) -> list[torch.Tensor]:
    leaves = [anchor.clone().requires_grad_(), second.clone().requires_grad_()]
    return list(torch.autograd.grad(value(weight, of_three(*leaves, teacher)), leaves))


@pytest.mark.parametrize("weight", [0.25, 0.5, 0.9])
def test_beside_a_frozen_second_policy_the_optimum_is_the_one_that_completes_it(weight: float) -> None:
    """pi_a proportional to (pi_T / pi_x^(1 - w))^(1 / w): there the loss and its gradient are 0, elsewhere not."""
    best = (TEACHER.log_softmax(-1) - (1 - weight) * SECOND.log_softmax(-1)) / weight
    at_best = of_three(best, SECOND, TEACHER)
    assert abs(float(value(weight, at_best))) < 1e-14
    assert gradients(weight, best, SECOND, TEACHER)[0].abs().max() < 1e-14
    assert float(value(weight, of_three(ANCHOR, SECOND, TEACHER))) > 0.01


def test_plain_descent_beside_a_frozen_second_policy_finds_it() -> None:
    weight, anchor = 0.5, ANCHOR.clone().requires_grad_()
    for _ in range(1500):
        (grad,) = torch.autograd.grad(value(weight, of_three(anchor, SECOND, TEACHER)), anchor)
        anchor = (anchor.detach() - 40.0 * grad).requires_grad_()
    best = ((TEACHER.log_softmax(-1) - (1 - weight) * SECOND.log_softmax(-1)) / weight).log_softmax(-1)
    torch.testing.assert_close(anchor.log_softmax(-1), best, atol=1e-4, rtol=0)


def test_with_all_the_weight_it_is_the_plain_reverse_kl() -> None:
    """To the last bit."""
    batch = global_batch(seed=5, dtype=torch.float32)
    inputs = [batch.hidden, batch.head.load()]
    found = []
    for name, options in (("mixture_kl", {"weight": 1.0}), ("reverse_kl", {})):
        output = make(name, **options)(batch, counts(batch))
        found.append([output.value.detach(), *torch.autograd.grad(output.value, inputs)])
    for mixed, plain in zip(*found, strict=True):
        assert torch.equal(mixed, plain)


def test_both_policies_get_the_gradient_that_differences_tell() -> None:
    whole = gradients(0.3, ANCHOR, SECOND, TEACHER)
    step = 1e-6
    for which, grad in enumerate(whole):
        assert grad.abs().max() > 1e-3
        for i, j in ((0, 0), (1, 4), (3, 8)):
            ends = []
            for sign in (1, -1):
                logits = [ANCHOR.clone(), SECOND.clone()]
                logits[which][i, j] += sign * step
                ends.append(float(value(0.3, of_three(*logits, TEACHER))))
            assert float(grad[i, j]) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)


def test_the_second_policy_has_a_head_of_its_own_width() -> None:
    batch = global_batch(seed=6)
    output = make("mixture_kl")(batch, counts(batch))
    grads = torch.autograd.grad(output.value, [batch.auxiliary, batch.auxiliary_head.load(), batch.hidden])
    assert all(grad.abs().max() > 0 for grad in grads)
    assert batch.auxiliary.shape[1] != batch.hidden.shape[1]


def test_what_is_missing_or_does_not_fit_is_told() -> None:
    batch = of_three(ANCHOR, SECOND, TEACHER)
    with pytest.raises(ValueError, match="'auxiliary'"):
        value(0.5, replace(batch, auxiliary=None))
    with pytest.raises(ValueError, match="auxiliary's head"):
        value(0.5, replace(batch, auxiliary_head=None))
    short = Head("the auxiliary", lambda: torch.eye(9).double()[:7])
    with pytest.raises(UserError, match="'the auxiliary' has 7"):
        value(0.5, replace(batch, auxiliary_head=short))
