"""The one shift, and the chunked path against the plain one."""

from __future__ import annotations

import math

import pytest
import torch

from noria.core.errors import UserError
from noria.losses import logprobs
from noria.losses.logprobs import chunked_logprobs, entropies, prediction_positions, shift_logprobs

LENGTHS = (1, 2, 17)


def rows(seed: int = 0, vocabulary: int = 23, width: int = 5) -> tuple[torch.Tensor, ...]:
    gen = torch.Generator().manual_seed(seed)
    n = sum(LENGTHS)
    hidden = torch.randn(n, width, generator=gen, dtype=torch.float64)
    weight = torch.randn(vocabulary, width, generator=gen, dtype=torch.float64)
    ids = torch.randint(0, vocabulary, (n,), generator=gen)
    segment = torch.arange(len(LENGTHS)).repeat_interleave(torch.tensor(LENGTHS))
    return hidden, weight, ids, segment


def naive(logits: torch.Tensor, ids: list[int], temperature: float) -> list[float]:
    """One sequence, one token at a time, in plain Python."""
    out = [0.0]
    for t in range(1, len(ids)):
        scaled = [x / temperature for x in logits[t - 1].tolist()]
        top = max(scaled)
        out.append(scaled[ids[t]] - top - math.log(sum(math.exp(x - top) for x in scaled)))
    return out


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_packed_lengths_1_2_17_equal_the_naive_walk(temperature: float) -> None:
    hidden, weight, ids, segment = rows()
    logits = hidden @ weight.T
    got = shift_logprobs(logits, ids, temperature, segment)
    for i in range(len(LENGTHS)):
        own = segment == i
        assert got[own].tolist() == pytest.approx(naive(logits[own], ids[own].tolist(), temperature), abs=1e-12)


def test_a_padded_batch_equals_the_packed_row() -> None:
    hidden, weight, ids, segment = rows()
    logits = hidden @ weight.T
    packed = shift_logprobs(logits, ids, 1.0, segment)
    wide_logits, wide_ids = torch.full((3, 17, 23), 9.0).double(), torch.zeros(3, 17, dtype=torch.long)
    for i, n in enumerate(LENGTHS):
        wide_logits[i, :n], wide_ids[i, :n] = logits[segment == i], ids[segment == i]
    wide = shift_logprobs(wide_logits, wide_ids)
    for i, n in enumerate(LENGTHS):
        torch.testing.assert_close(wide[i, :n], packed[segment == i], atol=1e-12, rtol=0)


def test_teacher_equal_to_student_has_a_kl_of_exactly_zero() -> None:
    hidden, weight, ids, segment = rows()
    student, _ = chunked_logprobs(hidden, weight, ids, segment)
    teacher, _ = chunked_logprobs(hidden.clone(), weight.clone(), ids, segment)
    assert (student - teacher).eq(0).all()


def test_first_tokens_have_no_prediction_row() -> None:
    _, _, _, segment = rows()
    assert prediction_positions(segment).tolist() == [2, *range(4, 20)]
    wanted = torch.zeros(20, dtype=torch.bool)
    wanted[[0, 1, 2, 19]] = True
    assert prediction_positions(segment, wanted).tolist() == [2, 19]


def test_v11_the_temperature_is_applied() -> None:
    logits, ids = torch.tensor([[2.0, 1.0, 0.0]] * 2, dtype=torch.float64), torch.tensor([1, 0])
    assert shift_logprobs(logits, ids, 1.0)[1].item() == pytest.approx(-0.407606, abs=1e-6)
    assert shift_logprobs(logits, ids, 0.6)[1].item() == pytest.approx(-0.202573, abs=1e-6)


def test_v9_a_truncated_support_biases_every_token_by_log_of_its_mass() -> None:
    p = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
    ids = torch.tensor([3, 0])
    full = shift_logprobs(p.log().expand(2, 4), ids)[1]
    top = torch.where(p > 0.2, p.log(), torch.tensor(-torch.inf).double())
    bias = float(full - shift_logprobs(top.expand(2, 4), ids)[1])
    assert bias == pytest.approx(math.log(0.8), abs=1e-12)
    assert math.exp(100 * bias) == pytest.approx(2.037e-10, rel=1e-3)


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_chunked_equals_plain_with_gradients(chunk: int, temperature: float) -> None:
    hidden, weight, ids, segment = rows()
    wanted = torch.rand(len(ids), generator=torch.Generator().manual_seed(3)) < 0.6
    at = torch.rand(len(ids), generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    results = []
    for plain in (True, False):
        h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        if plain:
            logits = h @ w.T
            keep = torch.zeros(len(ids), dtype=torch.bool)
            keep[prediction_positions(segment, wanted)] = True
            logp = shift_logprobs(logits, ids, temperature, segment).where(keep, 0.0 * h[:, 0])
            entropy = entropies(logits, temperature, segment).where(keep, 0.0 * h[:, 0])
        else:
            logp, entropy = chunked_logprobs(h, w, ids, segment, temperature, wanted, chunk)
        (logp * at + entropy * at.flip(0)).sum().backward()
        results.append((logp, entropy, h.grad, w.grad))
    for plain_value, chunked_value in zip(*results, strict=True):
        torch.testing.assert_close(chunked_value, plain_value, atol=1e-10, rtol=0)


def test_a_chunk_that_is_kept_gives_the_same_gradients_once_and_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, ids, segment = (t.requires_grad_() if t.is_floating_point() else t for t in rows())
    found = []
    for bytes_kept in (0, 1 << 20):
        monkeypatch.setattr(logprobs, "KEPT_BYTES", bytes_kept)
        logp, entropy = chunked_logprobs(hidden, weight, ids, segment, 1.3, chunk_tokens=64)
        value = (logp * torch.arange(len(ids))).sum() + (entropy * entropy).sum()
        for _ in range(2):
            found.append(torch.autograd.grad(value, (hidden, weight), retain_graph=True))
    for grads in found[1:]:
        assert all(torch.equal(got, want) for got, want in zip(grads, found[0], strict=True))


def test_chunked_gradient_by_finite_differences() -> None:
    hidden, weight, ids, segment = rows(vocabulary=6, width=3)
    inputs = (hidden.requires_grad_(), weight.requires_grad_())
    assert torch.autograd.gradcheck(lambda h, w: chunked_logprobs(h, w, ids, segment, 0.8, None, 4), inputs)


def test_chunked_float32_and_a_frozen_head() -> None:
    hidden, weight, ids, segment = rows()
    h = hidden.float().requires_grad_()
    logp, entropy = chunked_logprobs(h, weight.float(), ids, segment, chunk_tokens=4)
    assert logp.dtype == entropy.dtype == torch.float32
    torch.testing.assert_close(logp.double(), shift_logprobs(hidden @ weight.T, ids, 1.0, segment), atol=1e-5, rtol=0)
    logp.sum().backward()
    assert torch.isfinite(h.grad).all() and h.grad.abs().sum() > 0


def test_chunked_half_precision_sums_in_float32() -> None:
    hidden, weight, ids, segment = rows()
    h, w = hidden.bfloat16().requires_grad_(), weight.bfloat16().requires_grad_()
    logp, _ = chunked_logprobs(h, w, ids, segment, chunk_tokens=4)
    assert logp.dtype == torch.float32
    logp.sum().backward()
    assert h.grad.dtype == w.grad.dtype == torch.bfloat16


def test_nothing_wanted_is_all_zero_and_differentiable() -> None:
    hidden, weight, ids, segment = rows()
    h = hidden.requires_grad_()
    logp, entropy = chunked_logprobs(h, weight, ids, segment, wanted=torch.zeros(len(ids)))
    (logp + entropy).sum().backward()
    assert logp.eq(0).all() and entropy.eq(0).all() and h.grad.eq(0).all()


def test_temperature_zero_is_refused() -> None:
    hidden, weight, ids, segment = rows()
    with pytest.raises(UserError, match="temperature must be > 0"):
        chunked_logprobs(hidden, weight, ids, segment, temperature=0.0)
