"""Cross entropy, entropy and reference KL against plain Python; the weighted sum of terms."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from loss_batches import counts, global_batch, make

from noria.core import recipe
from noria.core.errors import UserError
from noria.losses.base import Batch, Denominators, Loss
from noria.losses.logprobs import chunked_logprobs
from noria.losses.objective import objective

BOUNDS: dict[str, dict[str, float]] = {"free": {}, "cut": {"bound": 0.1}, "wide": {"bound": 9.0}}
RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.toml"


def naive_mean(batch: Batch, per_token: list[float]) -> float:
    keep = batch.mask.tolist()
    kept = [x * w for x, w, m in zip(per_token, batch.weight.tolist(), keep, strict=True) if m]
    return sum(kept) / len(kept)


def test_cross_entropy(batch: Batch) -> None:
    got = make("ce")(batch, counts(batch))
    assert float(got.value.detach()) == pytest.approx(naive_mean(batch, [-x for x in batch.logp.tolist()]))


def test_cross_entropy_ignores_advantages_and_old_policies(batch: Batch) -> None:
    other = replace(batch, advantage=batch.advantage * 0, logp_old=batch.logp_old * 3, logp_mu=batch.logp_mu * 3)
    assert torch.equal(make("ce")(other, counts(batch)).value, make("ce")(batch, counts(batch)).value)


def test_entropy_is_a_bonus(batch: Batch) -> None:
    got = make("entropy")(batch, counts(batch))
    entropy = batch.entropy.tolist()
    assert float(got.value.detach()) == pytest.approx(naive_mean(batch, [-x for x in entropy]))
    unweighted = [x for x, m in zip(entropy, batch.mask.tolist(), strict=True) if m]
    assert float(got.metrics["entropy"]) == pytest.approx(sum(unweighted) / len(unweighted))


@pytest.mark.parametrize("estimator", ["k2", "iw_k3"])
def test_reference_kl(estimator: str, batch: Batch) -> None:
    got = make("kl_ref", estimator=estimator)(batch, counts(batch))
    k1 = (batch.logp - batch.logp_ref).tolist()
    rho = (batch.logp - batch.logp_old).exp().tolist()
    per_token = {
        "k2": [0.5 * x * x for x in k1],
        "iw_k3": [r * (math.exp(-x) - 1 + x) for x, r in zip(k1, rho, strict=True)],
    }[estimator]
    assert float(got.value.detach()) == pytest.approx(naive_mean(batch, per_token), abs=1e-12)


def test_reference_equal_to_the_policy_costs_exactly_nothing(batch: Batch) -> None:
    same = replace(batch, logp_ref=batch.logp.detach())
    for estimator in ("k2", "iw_k3"):
        output = make("kl_ref", estimator=estimator)(same, counts(same))
        (grad,) = torch.autograd.grad(output.value, batch.logp)
        assert float(output.value.detach()) == 0 and grad.eq(0).all()


def head(batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    gen = torch.Generator().manual_seed(5)
    hidden = torch.randn(len(batch.logp), 6, generator=gen, dtype=torch.float64)
    weight = torch.randn(11, 6, generator=gen, dtype=torch.float64)
    return hidden, weight, torch.randint(0, 11, (len(batch.logp),), generator=gen)


def step(alpha: float, beta: float, joint: bool = True) -> torch.Tensor:
    """Gradient of a small head under alpha * OPD + beta * RL; not `joint`: a term that is off is left out."""
    batch = global_batch()
    hidden, weight, ids = head(batch)
    free = weight.clone().requires_grad_()
    logp, _ = chunked_logprobs(hidden, free, ids, batch.segment, chunk_tokens=5)
    shared = replace(batch, logp=logp, entropy=None)
    opd = replace(shared, advantage=(batch.logp_teacher - batch.logp_ref).detach())
    terms: dict[str, tuple[float, Loss, Batch]] = {
        "opd": (alpha, make("clipped", balance="route"), opd),
        "rl": (beta, make("clipped", eps_high=0.28, aggregate="prompt"), shared),
    }
    if not joint:
        terms = {name: term for name, term in terms.items() if term[0]}
    batches: dict[str, tuple[Batch, Denominators]] = {k: (b, counts(b)) for k, (_, _, b) in terms.items()}
    value, metrics = objective(
        {k: loss for k, (_, loss, _) in terms.items()}, {k: c for k, (c, _, _) in terms.items()}, batches
    )
    assert value is not None and {f"loss/{k}" for k, (c, _, _) in terms.items() if c} <= set(metrics)
    value.backward()
    return free.grad


def test_the_signal_of_distillation_may_be_cut(batch: Batch) -> None:
    """At rho = 1 the gradient by log pi is -A / tokens, with A cut; a bound that nothing reaches changes no bit."""
    loss = {name: make("k1_pg", eps_high=1e9, eps_low=0.99, **options) for name, options in BOUNDS.items()}
    batch = replace(batch, logp_old=batch.logp.detach(), weight=torch.ones_like(batch.weight))
    own = (batch.logp_teacher - batch.logp).detach()
    found = {k: torch.autograd.grad(term(batch, counts(batch)).value, batch.logp)[0] for k, term in loss.items()}
    for name, bound in (("cut", 0.1), ("free", 9.0)):
        want = -own.clamp(-bound, bound) * batch.mask / batch.mask.sum()
        torch.testing.assert_close(found[name], want, atol=1e-12, rtol=0)
    assert torch.equal(found["wide"], found["free"]) and not torch.equal(found["cut"], found["free"])


def test_alpha_zero_is_bit_identical_to_rl_alone() -> None:
    assert torch.equal(step(0, 0.7), step(0, 0.7, joint=False))


def test_beta_zero_is_bit_identical_to_distillation_alone() -> None:
    assert torch.equal(step(1.3, 0), step(1.3, 0, joint=False))


def test_joint_is_the_sum() -> None:
    torch.testing.assert_close(step(1.3, 0.7), 1.3 * step(1, 0) + 0.7 * step(0, 1), atol=1e-12, rtol=0)


def test_all_terms_off_is_no_loss(batch: Batch) -> None:
    pair = {"ce": (batch, counts(batch))}
    assert objective({"ce": make("ce")}, {"ce": 0.0}, pair) == (None, {})


def test_terms_and_coefficients_must_match(batch: Batch) -> None:
    with pytest.raises(ValueError, match="same losses"):
        objective({"ce": make("ce")}, {"clipped": 1.0}, {"ce": (batch, counts(batch))})


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_a_recipe_with_a_wrong_estimator_is_refused_before_it_runs(estimator: str) -> None:
    change = f"phase.experts.loss.kl_ref.estimator={estimator}"
    with pytest.raises(UserError, match=rf"(?s)experts.*got {estimator}.*k2.*iw_k3"):
        recipe.load([RECIPE], [change])
