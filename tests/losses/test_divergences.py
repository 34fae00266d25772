"""Losses over the whole vocabulary against plain sums, their gradients against the divergence's own, and the cache."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from loss_batches import Batch, counts, global_batch, make
from test_golden_vectors import of_logits

from noria.core.errors import UserError
from noria.losses import states
from noria.losses.states import Head

GEN = torch.Generator().manual_seed(3)
MINE, THEIRS = (torch.randn(5, 9, generator=GEN).double() * 1.5 for _ in range(2))
NAMES = ("forward_kl_topk", "reverse_kl", "reverse_kl_topk", "jsd", "mse_logits")
OPTIONS: dict[str, dict[str, object]] = {
    "forward_kl_topk": {"top_k": 3}, "reverse_kl_topk": {"top_k": 3}, "jsd": {"beta": 0.3},
}  # fmt: skip


def bucketed(p: list[float], q: list[float], chosen: list[int]) -> tuple[list[float], list[float]]:
    rest = [i for i in range(len(p)) if i not in chosen]
    return [*(p[i] for i in chosen), sum(p[i] for i in rest)], [*(q[i] for i in chosen), sum(q[i] for i in rest)]


def kl(p: list[float], q: list[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def naive(name: str, mine: torch.Tensor, theirs: torch.Tensor) -> float:
    """One row, in plain Python."""
    s, t = mine.softmax(0).tolist(), theirs.softmax(0).tolist()
    order = {"s": sorted(range(9), key=lambda i: -s[i])[:3], "t": sorted(range(9), key=lambda i: -t[i])[:3]}
    if name == "forward_kl_topk":
        return kl(*bucketed(t, s, order["t"]))
    if name == "reverse_kl_topk":
        return kl(*bucketed(s, t, order["s"]))
    if name == "reverse_kl":
        return kl(s, t)
    if name == "jsd":
        m = [0.3 * a + 0.7 * b for a, b in zip(t, s, strict=True)]
        return 0.3 * kl(t, m) + 0.7 * kl(s, m)
    a, b = (x - x.mean() for x in (mine, theirs))
    return float(((a - b) ** 2).mean())


@pytest.mark.parametrize("name", NAMES)
def test_equals_plain_sums(name: str) -> None:
    batch = of_logits(MINE, THEIRS)
    want = sum(naive(name, m, t) for m, t in zip(MINE, THEIRS, strict=True)) / 5
    assert float(make(name, **OPTIONS.get(name, {}))(batch, counts(batch)).value) == pytest.approx(want, abs=1e-12)


def test_the_two_directions_are_not_swapped() -> None:
    p, q = torch.tensor([[0.9, 0.1]]).double().log(), torch.tensor([[0.5, 0.5]]).double().log()
    batch = of_logits(p, q)
    forward = make("forward_kl_topk", top_k=2)(batch, counts(batch)).value
    reverse = make("reverse_kl")(batch, counts(batch)).value
    assert float(forward) == pytest.approx(0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1))
    assert float(reverse) == pytest.approx(0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5))


@pytest.mark.parametrize("name", NAMES)
def test_a_teacher_that_is_the_student_costs_exactly_nothing(name: str) -> None:
    mine = MINE.clone().requires_grad_()
    batch = of_logits(mine, MINE)
    value = make(name, **OPTIONS.get(name, {}))(batch, counts(batch)).value
    (grad,) = torch.autograd.grad(value, mine)
    assert abs(float(value.detach())) < 1e-15 and grad.abs().max() < 1e-15


@pytest.mark.parametrize("name", ["forward_kl_topk", "reverse_kl_topk", "reverse_kl", "jsd"])
def test_a_divergence_is_never_negative(name: str) -> None:
    gen = torch.Generator().manual_seed(11)
    for scale in (0.01, 1.0, 30.0):
        mine, theirs = (torch.randn(40, 9, generator=gen).double() * scale for _ in range(2))
        term = make(name, **OPTIONS.get(name, {}))
        for i in range(40):
            batch = of_logits(mine[i : i + 1], theirs[i : i + 1])
            assert float(term(batch, counts(batch)).value) >= -1e-12


def test_a_bucketed_kl_is_at_most_the_full_one() -> None:
    for top_k in range(1, 10):
        batch = of_logits(MINE, THEIRS)
        for short, full in (("reverse_kl_topk", "reverse_kl"), ("forward_kl_topk", "forward_kl_topk")):
            whole = {} if full == "reverse_kl" else {"top_k": 9}
            small = make(short, top_k=top_k)(batch, counts(batch)).value
            assert float(small) <= float(make(full, **whole)(batch, counts(batch)).value) + 1e-12


@pytest.mark.parametrize("name", [*NAMES, "mixture_kl"])
def test_blocks_change_nothing(name: str, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    """With heads that scale, cap and pad; the second policy's gradients too."""
    monkeypatch.setattr(states, "BLOCK_LOGITS", 0)
    special = {"temperature": 0.7, "scale": 2.0, "softcap": 3.0, "vocab": 10}
    teachers = tuple(replace(t, head=replace(t.head, vocab=10)) for t in batch.teachers)
    second = replace(batch.auxiliary_head, vocab=10)
    inputs = [batch.hidden, batch.head.load()]
    inputs += [batch.auxiliary, batch.auxiliary_head.load()] if name == "mixture_kl" else []
    found = []
    for held, chunk in ((1 << 22, 1), (0, 1), (0, 3 * states.BLOCKS), (0, 4096)):
        monkeypatch.setattr(states, "HELD_LOGITS", held)
        head = replace(batch.head, **special, chunk_tokens=chunk)
        assert states.block_rows(head, 10) == max(1, chunk // states.BLOCKS)
        cut = replace(batch, head=head, teachers=teachers, auxiliary_head=second)
        value = make(name, **OPTIONS.get(name, {}))(cut, counts(cut)).value
        found.append((value.detach(), *torch.autograd.grad(value, inputs)))
    assert all(float(part.abs().max()) > 1e-6 for part in found[0])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_blocks_give_gradients_to_what_is_trained_alone(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "HELD_LOGITS", 0)
    term, matrix = make("jsd"), batch.head.load()
    whole = torch.autograd.grad(term(batch, counts(batch)).value, [batch.hidden, matrix])
    frozen = replace(batch, head=Head("student", matrix.detach))
    torch.testing.assert_close(torch.autograd.grad(term(frozen, counts(frozen)).value, batch.hidden)[0], whole[0])
    fixed = replace(batch, hidden=batch.hidden.detach())
    torch.testing.assert_close(torch.autograd.grad(term(fixed, counts(fixed)).value, matrix)[0], whole[1])
    neither = replace(frozen, hidden=batch.hidden.detach())
    torch.testing.assert_close(term(neither, counts(neither)).value, term(batch, counts(batch)).value)


@pytest.mark.parametrize("held", [0, 1 << 22])
def test_bf16_states_are_compared_in_float32(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "HELD_LOGITS", held)
    batch = global_batch(dtype=torch.float32)
    mine = [x.detach().bfloat16().requires_grad_() for x in (batch.hidden, batch.head.load())]
    teachers = []
    for t in batch.teachers:
        matrix = t.head.load().bfloat16()
        teachers.append(replace(t, head=Head("t", lambda m=matrix: m), hidden=t.hidden.bfloat16()))
    low = replace(batch, hidden=mine[0], head=Head("s", lambda: mine[1]), teachers=tuple(teachers))
    value = make("reverse_kl")(low, counts(low)).value
    found = torch.autograd.grad(value, mine)
    assert value.dtype == torch.float32 and all(grad.dtype == torch.bfloat16 for grad in found)
    total = torch.zeros(())
    products, kernel = mine[0] @ mine[1].t(), make("reverse_kl").kernel
    for t in teachers:
        for i, at in enumerate(t.positions.tolist()):
            if batch.mask[at]:
                theirs = (t.hidden[i] @ t.head.load().t()).float()
                total = total + batch.weight[at] * kernel(products[at].float()[None], theirs[None])[0]
    total = total / batch.mask.sum()
    torch.testing.assert_close(value, total, atol=1e-5, rtol=0)
    for grad, want in zip(found, torch.autograd.grad(total, mine), strict=True):
        torch.testing.assert_close(grad, want, atol=0.01 * float(want.abs().max()), rtol=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_cached_states_equal_the_direct_path(name: str) -> None:
    """fp32: the loss from cached states and a head equals that of full logits to 1e-6, with its gradient."""
    batch = global_batch(dtype=torch.float32)
    term = make(name, **OPTIONS.get(name, {}))
    value = term(batch, counts(batch)).value
    grads = torch.autograd.grad(value, [batch.hidden, batch.head.load()])
    total = batch.logp.new_zeros(())
    for teacher in batch.teachers:
        for i, at in enumerate(teacher.positions.tolist()):
            if batch.mask[at]:
                logits = (batch.hidden[at] @ batch.head.load().t())[None]
                theirs = (teacher.hidden[i] @ teacher.head.load().t())[None]
                total = total + batch.weight[at] * term.kernel(logits, theirs)[0]
    direct = total / batch.mask.sum()
    torch.testing.assert_close(value, direct, atol=1e-6, rtol=0)
    for a, b in zip(grads, torch.autograd.grad(direct, [batch.hidden, batch.head.load()]), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


def test_joint_weights_have_the_geometric_mixture_as_their_optimum() -> None:
    """Σ w_i KL(π‖π_i) is stationary at π ∝ Π π_i^{w_i}, and its gradient is the weighted sum of the single ones."""
    others = [THEIRS[0:1], THEIRS[1:2]]
    weights = [0.3, 0.7]

    def joint(mine: torch.Tensor) -> torch.Tensor:
        batch = of_logits(mine, others[0])
        parts = [
            replace(batch.teachers[0], hidden=other, share=torch.tensor([w], dtype=torch.float64))
            for other, w in zip(others, weights, strict=True)
        ]
        batch = replace(batch, teachers=tuple(parts))
        (grad,) = torch.autograd.grad(make("reverse_kl")(batch, counts(batch)).value, mine)
        return grad

    mixture = sum(w * other.log_softmax(-1) for w, other in zip(weights, others, strict=True))
    assert joint(mixture.clone().requires_grad_()).abs().max() < 1e-15
    mine = MINE[0:1].clone().requires_grad_()
    single = torch.zeros_like(mine)
    for w, other in zip(weights, others, strict=True):
        batch = of_logits(mine, other)
        (grad,) = torch.autograd.grad(make("reverse_kl")(batch, counts(batch)).value, mine)
        single = single + w * grad
    torch.testing.assert_close(joint(mine), single, atol=1e-14, rtol=0)


def test_heads_know_scale_cap_padding_and_temperature() -> None:
    matrix, hidden = torch.randn(6, 4, generator=GEN).double(), torch.randn(2, 4, generator=GEN).double()
    head = Head("x", lambda: matrix, temperature=0.7, scale=2.0, softcap=3.0, vocab=5)
    want = torch.tanh(hidden @ matrix[:5].t() * 2.0 / 3.0) * 3.0 / 0.7
    torch.testing.assert_close(head.logits(hidden, matrix), want)
    assert head.logits(hidden.bfloat16(), matrix.bfloat16()).dtype == torch.float32


def test_another_vocabulary_is_refused() -> None:
    batch = of_logits(MINE, THEIRS)
    other = replace(batch.teachers[0], head=Head("stranger", lambda: torch.eye(9).double()[:7]))
    with pytest.raises(UserError, match="'stranger' has 7.*choose a model"):
        make("reverse_kl")(replace(batch, teachers=(other,)), counts(batch))


def test_states_that_nobody_computed_are_named() -> None:
    batch = replace(of_logits(MINE, THEIRS), head=None)
    with pytest.raises(ValueError, match="student's head"):
        make("reverse_kl")(batch, counts(batch))
