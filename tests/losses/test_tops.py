"""A teacher of which the K likeliest tokens are known gives the losses over these what the whole teacher gives them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch
from loss_batches import Batch, counts, make
from test_golden_vectors import of_logits

from noria.core.errors import UserError
from noria.losses import forward_kl_topk, k1_pg, mse_logits, reverse_kl_topk
from noria.losses.base import teacher_top
from noria.losses.states import TeacherStates
from noria.losses.tops import pack, top_head

GEN = torch.Generator().manual_seed(21)
VOCAB = 300


def told(teacher: torch.Tensor, k: int) -> list[list[tuple[int, float]]]:
    """What a server says: single-precision log-probabilities of the K likeliest."""
    values, ids = teacher.float().log_softmax(-1).topk(k, -1)
    return [list(zip(i, v, strict=True)) for i, v in zip(ids.tolist(), values.tolist(), strict=True)]


def of_top(mine: torch.Tensor, teacher: torch.Tensor, k: int) -> Batch:
    """The batch of `of_logits` with a teacher of which `k` tokens are known."""
    n, v = mine.shape
    states = pack(told(teacher, k), k, v)
    only = TeacherStates(top_head("server", v), torch.arange(n), states, torch.ones(n).double())
    return replace(of_logits(mine, teacher), teachers=(only,))


def value(name: str, batch: Batch, k: int) -> tuple[float, torch.Tensor]:
    options = {"support": "teacher"} if name == "reverse_kl_topk" else {}
    found = make(name, top_k=k, **options)(batch, counts(batch)).value
    (grad,) = torch.autograd.grad(found, batch.hidden)
    return float(found.detach()), grad


@pytest.mark.parametrize("name", ["forward_kl_topk", "reverse_kl_topk"])
@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 4.0])
@pytest.mark.parametrize(("known", "k"), [(5, 5), (20, 5), (20, 20), (VOCAB, VOCAB), (1, 1)])
def test_equals_the_whole_teacher(name: str, scale: float, known: int, k: int) -> None:
    mine = torch.randn(6, VOCAB, generator=GEN).double()
    teacher = torch.randn(6, VOCAB, generator=GEN).double() * scale + torch.linspace(0, 1e-3, VOCAB).double()
    got, slope = value(name, of_top(mine.clone().requires_grad_(), teacher, known), k)
    want, true_slope = value(name, of_logits(mine.clone().requires_grad_(), teacher), k)
    # The reverse KL has the logarithm of the rest's mass, of which single precision tells 1e-7.
    rest = 1 - teacher.softmax(-1).topk(known, -1).values.sum(-1)
    near = 1e-5 + (1e-7 / float(rest.min()) if name == "reverse_kl_topk" and known < VOCAB else 0)
    assert got == pytest.approx(want, abs=near) and near < 1e-3
    torch.testing.assert_close(slope, true_slope, atol=near, rtol=0)


def test_a_head_that_was_sent_to_another_process_is_the_same() -> None:
    states = pack(told(torch.randn(3, VOCAB, generator=GEN), 5), 5, VOCAB)
    here, there = top_head("server", VOCAB), pickle.loads(pickle.dumps(top_head("server", VOCAB)))
    assert torch.equal(here.logits(states, here.load()), there.logits(states, there.load()))


@pytest.mark.parametrize("name", ["forward_kl_topk", "reverse_kl_topk"])
def test_a_teacher_that_is_certain_has_a_rest_that_is_not_known_and_stays_finite(name: str) -> None:
    """The K hold all of the probability that single precision tells: a loss is there and not negative."""
    teacher = torch.zeros(3, VOCAB).double()
    teacher[:, :4] = torch.tensor([60.0, 40.0, 38.0, 35.0])
    mine = torch.randn(3, VOCAB, generator=GEN).double().requires_grad_()
    found, slope = value(name, of_top(mine, teacher, 4), 4)
    assert 0 < found < 100 and torch.isfinite(slope).all()
    same, _ = value(name, of_top(teacher.clone().requires_grad_(), teacher, 4), 4)
    assert 0 <= same < 1e-5


def test_the_known_tokens_stay_the_likeliest_and_keep_their_probabilities() -> None:
    teacher = torch.randn(4, VOCAB, generator=GEN).double() * 6
    batch = of_top(teacher, teacher, 7)
    (states,) = batch.teachers
    logits = states.head.logits(states.hidden, states.head.load())
    best = logits.topk(7, -1)
    assert best.indices.tolist() == teacher.topk(7, -1).indices.tolist()
    torch.testing.assert_close(best.values.double(), teacher.log_softmax(-1).topk(7, -1).values, atol=1e-5, rtol=0)


def test_a_foreign_token_is_refused() -> None:
    with pytest.raises(UserError, match="the student has 300 tokens and the teacher names the token 300"):
        pack([[(3, -1.0), (300, -2.0)]], 2, VOCAB)
    assert pack([], 2, VOCAB).shape == (0, 4)


def test_what_terms_read_of_a_teacher() -> None:
    forward = forward_kl_topk.build(forward_kl_topk.Config(top_k=9))
    own, theirs = (reverse_kl_topk.build(reverse_kl_topk.Config(support=whose)) for whose in ("student", "teacher"))
    sampled, whole = k1_pg.build(k1_pg.Config()), mse_logits.build(mse_logits.Config())
    assert teacher_top([sampled]) == 0
    assert teacher_top([sampled, forward]) == 9 and teacher_top([forward, theirs]) == 64
    assert teacher_top([forward, own]) is None and teacher_top([whole]) is None
