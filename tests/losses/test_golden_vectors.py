"""The golden vectors of known faults: the right value of each, computed by our own code, beside the wrong one."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from loss_batches import counts, make

from noria.core.stats import by_rollout, pass_at_k
from noria.losses.base import Batch, Denominators
from noria.losses.logprobs import shift_logprobs
from noria.losses.states import Head, TeacherStates
from noria.signals import group_mean, group_std, kl_penalty, rloo
from noria.sources.turns import Turns
from noria.trainers.channels import Views
from noria.trainers.packing import micro_batches
from noria.trainers.rows import Channel, Row, batch_of


def of_logits(mine: torch.Tensor, theirs: torch.Tensor, ids: torch.Tensor | None = None) -> Batch:
    """One token per row of logits [N, V]; the head is the identity, so that hidden states are logits."""
    n, v = mine.shape
    one, index = torch.ones(n, dtype=torch.float64), torch.arange(n)
    identity = torch.eye(v, dtype=torch.float64)
    zero = torch.zeros(n, dtype=torch.float64)
    logp = zero if ids is None else mine.log_softmax(-1).gather(1, ids[:, None]).squeeze(1)
    teacher = TeacherStates(Head("teacher", lambda: identity), index, theirs, one)
    return Batch(
        logp=logp, logp_old=logp.detach(), logp_mu=logp.detach(), advantage=zero, weight=one, mask=one.bool(),
        segment=index, group=index, route=index * 0, hidden=mine, head=Head("student", lambda: identity),
        teachers=(teacher,),
    )  # fmt: skip


def test_v1_one_mean_over_all_micro_batches() -> None:
    rows = [Row.plain([0, 1, 1], [0, 1, 1], 0), Row.plain([0] + [1] * 8, [0] + [1] * 8, 1)]
    values = torch.cat([torch.zeros(1), torch.ones(2), torch.zeros(1), torch.full((8,), 4.0)]).double()
    loss, means, total = make("ce"), [], 0.0
    segment = torch.tensor([0] * 3 + [1] * 9)
    mask = torch.tensor(np.concatenate([row.mask for row in rows]))
    whole = Denominators.of(mask, segment, segment, segment * 0)
    for i in (0, 1):
        (micro,) = micro_batches([rows[i]], 64, 64)
        batch = batch_of([rows[i]], micro, -values[segment == i], None, [i])
        means.append(float(loss(batch, counts(batch)).value))
        total += float(loss(batch, whole).value)
    assert (np.mean(means), total) == pytest.approx((2.5, 3.4))


def test_v3_nearly_equal_rewards_do_not_explode() -> None:
    for high in (0.35, 0.4, 0.3, 0.7, 0.1, 0.95):
        odd = high + 0.6 if high < 0.5 else high - 0.6
        advantage = group_std.build(group_std.Config(eps=0.0))([high] * 7 + [odd])
        assert abs(advantage[-1]) == pytest.approx(math.sqrt(7), abs=1e-9)
        assert abs(rloo.build(rloo.Config())([high] * 7 + [odd])[-1]) == pytest.approx(0.6)
    # In float32, E[x²] − E[x]² of the seven others leaves a residue that divides to thousands; 1 and 0 hide it.
    others = np.full(7, 0.35, dtype=np.float32)
    residue = np.float32((others * others).sum() / np.float32(7)) - np.float32(others.sum() / np.float32(7)) ** 2
    assert abs(residue) < 1e-6


def test_v5_an_unknown_reward_moves_no_sibling() -> None:
    built = group_mean.build(group_mean.Config())
    assert built([1.0, 3.0, 2.0, None]).tolist() == pytest.approx([-1.0, 1.0, 0.0, 0.0])
    assert built([1.0, 3.0, 2.0, 0.0])[:3].tolist() == pytest.approx([-0.5, 1.5, 0.5])


P, Q = torch.tensor([[0.6, 0.2, 0.1, 0.1]]).double(), torch.tensor([[0.7, 0.25, 0.03, 0.02]]).double()


def value(name: str, mine: torch.Tensor, theirs: torch.Tensor, **options: object) -> float:
    batch = of_logits(mine.log(), theirs.log())
    return float(make(name, **options)(batch, counts(batch)).value)


def test_v7_a_top_k_sum_needs_its_tail() -> None:
    truncated = float((P[0, :2] * (P[0, :2] / Q[0, :2]).log()).sum())
    assert truncated == pytest.approx(-0.137119, abs=1e-6)
    assert value("forward_kl_topk", Q, P, top_k=2) == pytest.approx(0.140140, abs=1e-6)
    assert value("forward_kl_topk", Q, P, top_k=4) == pytest.approx(0.144222, abs=1e-6)
    assert value("forward_kl_topk", Q, P, top_k=9) == pytest.approx(0.144222, abs=1e-6)
    # The student that fled the teacher's set pays for it; a sum over two entries alone would pay it instead.
    fled = torch.tensor([[0.006, 0.002, 0.5, 0.492]]).double()
    assert float((fled[0, :2] * (fled[0, :2] / P[0, :2]).log()).sum()) == pytest.approx(-0.036841, abs=1e-6)
    assert value("reverse_kl_topk", fled, P, top_k=2) > 1.0
    assert value("reverse_kl_topk", fled, P, top_k=2) <= value("reverse_kl", fled, P) + 1e-12


def test_v9_the_bias_of_a_cut_support() -> None:
    """Why samplers that cut the support are refused: the engine's log-probability is off by the log of the mass."""
    z = np.array([0.5, 0.3, 0.15, 0.05])
    engine, trainer = np.log(z[:2] / z[:2].sum()), np.log(z[:2])
    assert (trainer - engine).tolist() == pytest.approx([math.log(0.8)] * 2)
    assert math.log(0.8) == pytest.approx(-0.223144, abs=1e-6)
    assert math.exp(100 * math.log(0.8)) == pytest.approx(2.03704e-10, rel=1e-5)


def test_v11_one_temperature_on_both_sides() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]] * 2).double()
    ids = torch.tensor([0, 0])
    found = [float(shift_logprobs(logits, ids, temperature)[1]) for temperature in (1.0, 0.6)]
    assert found == pytest.approx([-0.407606, -0.202573], abs=1e-6)


def test_v12_expected_gradients_of_the_estimators() -> None:
    theta, ref = torch.tensor([0.3, -0.2, 0.1]).double(), torch.tensor([0.0, 0.4, -0.3]).double()
    true = torch.tensor([0.078887, -0.177233, 0.098346]).double()
    p, log_ratio = theta.softmax(0), theta.log_softmax(0) - ref.log_softmax(0)
    for estimator in ("k2", "iw_k3"):
        free = theta.clone().requires_grad_()
        batch = replace(of_logits(torch.zeros(3, 3).double(), torch.zeros(3, 3).double()), logp=free.log_softmax(0))
        batch = replace(batch, weight=p, logp_old=theta.log_softmax(0), logp_teacher=ref.log_softmax(0))
        make("kl_teacher", estimator=estimator)(batch, counts(batch)).total.backward()
        torch.testing.assert_close(free.grad, true, atol=1e-6, rtol=0)
    jacobian = torch.eye(3).double() - p
    torch.testing.assert_close((p[:, None] * jacobian).sum(0), torch.zeros(3).double(), atol=1e-12, rtol=0)
    k3 = (p[:, None] * jacobian * (1 - (-log_ratio).exp())[:, None]).sum(0)
    assert (k3 - true).abs().max() > 0.01


def test_v13_pass_at_k_counts_rollouts() -> None:
    assert (pass_at_k(10, 3, 1), pass_at_k(10, 3, 5)) == pytest.approx((0.3, 0.916667), abs=1e-6)
    assert pass_at_k(10, 3, 5) != pytest.approx(1 - 0.7**5)
    rows = [("a", True), ("a", True), ("b", False)]
    assert by_rollout(rows) == [True, False]
    assert pass_at_k(2, 1, 1) == 0.5 and pass_at_k(3, 2, 1) == pytest.approx(2 / 3)


def test_v14_scores_stand_at_the_token_that_they_are_of() -> None:
    """Token t is read at row t − 1: a teacher that is the student gives exactly 0, for lengths 1, 2 and 17."""
    gen = torch.Generator().manual_seed(0)
    segment = torch.tensor([0] + [1] * 2 + [2] * 17)
    logits, ids = torch.randn(20, 7, generator=gen).double(), torch.randint(0, 7, (20,), generator=gen)
    mine, theirs = (shift_logprobs(logits, ids, segment=segment) for _ in range(2))
    assert (mine - theirs).abs().max() == 0
    for t in range(20):
        first = t == 0 or segment[t] != segment[t - 1]
        want = 0.0 if first else float(logits[t - 1].log_softmax(0)[ids[t]])
        assert float(mine[t]) == pytest.approx(want, abs=1e-12)


def test_v15_length_is_the_sum_of_the_mask() -> None:
    mask = [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1]
    at = np.flatnonzero(mask)
    assert (at[-1] - at[0] + 1, sum(mask)) == (12, 9)
    row = Row.plain(range(15), mask)
    row.channels["rl"] = Channel(row.mask, row.weight, row.advantage)
    views = Views([row], {"clipped": make("clipped")}, counts(of_logits(torch.zeros(1, 2), torch.zeros(1, 2))))
    assert [float(d.action_tokens) for d in views.denominators.values()] == [9.0]
    penalty = kl_penalty.build(kl_penalty.Config(coef=1.0, estimator="k1"))
    assert penalty.estimate(np.full(9, -1.0), np.full(9, -2.0)).sum() == pytest.approx(9.0)


def test_v16_slow_groups_are_trained_as_often_as_fast_ones() -> None:
    """Discarding what is stale halves the mean duration; consuming groups in the order of admission leaves it."""
    duration = np.random.default_rng(0).lognormal(0, 1, 20000)
    assert duration[duration <= 1].mean() < 0.35 * duration.mean()
    source = Turns({"a": list(range(50))}, seed=0)  # type: ignore[dict-item]
    drawn = [int(source.task(group)) for group in range(200)]  # type: ignore[call-overload]
    assert sorted(drawn) == sorted(list(range(50)) * 4)


def test_v17_a_template_that_rewrites_history_breaks_the_prefix(tiny_folder: Path) -> None:
    from transformers import AutoTokenizer

    from noria.core.errors import UserError
    from noria.tokens.renderer import Renderer

    tokenizer = AutoTokenizer.from_pretrained(str(tiny_folder), local_files_only=True)
    assert Renderer(tokenizer).end_ids
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' and not loop.last %}"
        "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}{{ eos_token }}{% endfor %}"
        "assistant: "
    )
    with pytest.raises(UserError, match="rewrites"):
        Renderer(tokenizer)
