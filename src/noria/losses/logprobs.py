"""Log-probabilities of given tokens: the one shift by a position, a plain path and a chunked one.

The log-probability of token t is read at prediction row t - 1. That shift is written in this file only (`sources`).
Rows are packed: several sequences lie one after the other in [T], told apart by `segment` (any integers; a new
sequence starts where the value changes).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from noria.core.errors import UserError

#: A chunk's logits exist once; whatever is computed beside them exists for one of so many parts of them.
PIECES = 8
#: A single chunk of at most so many bytes is kept for the backward pass instead of being computed again.
KEPT_BYTES = 64 << 20


def prediction_positions(segment: Tensor, wanted: Tensor | None = None) -> Tensor:
    """Positions t (long, ascending) whose token has a predecessor in its own sequence.

    Token t is read at row t - 1 of the hidden states or logits.
    `segment` [T]; `wanted` [T] (bool) narrows them, e.g. to action tokens.
    """
    has_row = torch.zeros_like(segment, dtype=torch.bool)
    has_row[1:] = segment[1:] == segment[:-1]
    if wanted is not None:
        has_row &= wanted.bool()
    return has_row.nonzero().squeeze(1)


def sources(segment: Tensor) -> Tensor:
    """The row at which each token is predicted, t - 1, in a long tensor [T]; -1 for the first token of a sequence."""
    at = torch.full_like(segment, -1, dtype=torch.long)
    starts = prediction_positions(segment)
    at[starts] = starts - 1
    return at


def shift_logprobs(logits: Tensor, ids: Tensor, temperature: float = 1.0, segment: Tensor | None = None) -> Tensor:
    """log p(ids[t] | ids[<t]) in nats, same shape as `ids`; 0.0 for the first token of each sequence.

    `logits` [T, V] with `ids` [T] (packed; one sequence if `segment` is None), or [B, T, V] with [B, T] (each
    row a sequence; right-padding yields values the caller masks). Logits are divided by `temperature`.
    """
    if ids.dim() == 2 and segment is None:
        segment = torch.arange(len(ids), device=ids.device)[:, None].expand_as(ids)
    flat_ids = ids.reshape(-1)
    rows = torch.zeros_like(flat_ids) if segment is None else segment.reshape(-1)
    at = prediction_positions(rows)
    scaled = _as_float(logits.reshape(len(flat_ids), -1)[at - 1]) / _positive(temperature)
    picked = scaled.gather(1, flat_ids[at, None]).squeeze(1) - scaled.logsumexp(1)
    return _scatter(picked, at, len(flat_ids)).reshape(ids.shape)


def entropies(logits: Tensor, temperature: float = 1.0, segment: Tensor | None = None) -> Tensor:
    """Entropy in nats of the distribution token t was drawn from, [T] for `logits` [T, V]; 0.0 at starts."""
    rows = torch.zeros(len(logits), dtype=torch.long, device=logits.device) if segment is None else segment
    at = prediction_positions(rows)
    logp = (_as_float(logits[at - 1]) / _positive(temperature)).log_softmax(1)
    return _scatter(-(logp.exp() * logp).sum(1), at, len(logits))


def chunked_logprobs(
    hidden: Tensor,
    weight: Tensor,
    ids: Tensor,
    segment: Tensor,
    temperature: float = 1.0,
    wanted: Tensor | None = None,
    chunk_tokens: int = 1024,
    source: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies [T] without ever holding logits of more than `chunk_tokens` rows.

    `hidden` [T, D] (after the final norm), `weight` [V, D] (lm_head), `ids` [T], `segment` [T]. Only
    positions in `wanted` (all if None) that have a predecessor are computed, the rest are 0.0. `source` [T] names the
    row at which each token is predicted where that is not the one before it (-1 = none). Logits are
    recomputed in the backward pass unless they are few: memory above the inputs is little more than one chunk.
    Equals `shift_logprobs`.
    """
    rows = sources(segment) if source is None else source
    at = (rows >= 0 if wanted is None else (rows >= 0) & wanted.bool()).nonzero().squeeze(1)
    picked, entropy = _ChunkedHead.apply(  # type: ignore[no-untyped-call]
        hidden[rows[at]], weight, ids[at], _positive(temperature), max(1, chunk_tokens)
    )
    return _scatter(picked, at, len(ids)), _scatter(entropy, at, len(ids))


def _positive(temperature: float) -> float:
    if not temperature > 0:
        raise UserError(f"temperature must be > 0: got {temperature} - greedy decoding has no log-probabilities")
    return float(temperature)


def _as_float(logits: Tensor) -> Tensor:
    """bf16 and fp16 logits are summed in fp32; fp32 and fp64 stay as they are."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def _scatter(values: Tensor, at: Tensor, length: int) -> Tensor:
    return values.new_zeros(length).index_put((at,), values)


class _ChunkedHead(torch.autograd.Function):
    """(hidden [N, D], weight [V, D], targets [N]) -> (log-probabilities [N], entropies [N])."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float, chunk: int
    ) -> tuple[Tensor, Tensor]:
        ctx.temperature, ctx.chunk = temperature, chunk
        ctx.set_materialize_grads(False)
        picked = _as_float(hidden[:0, :1]).new_empty(len(targets))
        entropy = torch.empty_like(picked)
        ctx.kept = None
        for start in range(0, len(targets), chunk):
            part = slice(start, start + chunk)
            logp = _chunk_logp(hidden[part], weight, temperature)
            picked[part] = logp.gather(1, targets[part, None]).squeeze(1)
            entropy[part] = torch.cat([(piece.exp().mul_(piece)).sum(1).neg_() for piece in _pieces(logp)])
            if len(targets) <= chunk and logp.nbytes <= KEPT_BYTES and any(ctx.needs_input_grad):
                ctx.kept = logp
            del logp  # or it would live on beside the next chunk
        ctx.save_for_backward(hidden, weight, targets, entropy)
        return picked, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, entropy = ctx.saved_tensors
        grad_logp, grad_entropy = grads
        need_hidden, need_weight = ctx.needs_input_grad[:2]
        grad_hidden = torch.zeros_like(hidden) if need_hidden else None
        grad_weight = _as_float(weight[:0, :1]).new_zeros(weight.shape) if need_weight else None
        if grad_logp is None:
            grad_logp = _as_float(hidden[:0, :1]).new_zeros(len(targets))
        for start in range(0, len(targets), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            rows = hidden[part]
            # What was kept becomes the gradient in place; a second backward pass computes it again.
            grad = _chunk_logp(rows, weight, ctx.temperature) if ctx.kept is None else ctx.kept
            ctx.kept = None
            slope = grad_logp[part, None]
            if grad_entropy is None:
                grad.exp_().mul_(-slope)
            else:
                _with_entropy(grad, slope, entropy[part, None], grad_entropy[part, None])
            grad.scatter_add_(1, targets[part, None], slope).div_(ctx.temperature)
            if grad_hidden is not None:
                grad_hidden[part] = grad.to(weight.dtype) @ weight
            if grad_weight is not None:
                grad_weight.addmm_(grad.t(), _as_float(rows))
            del grad
        return grad_hidden, None if grad_weight is None else grad_weight.to(weight.dtype), None, None, None


def _with_entropy(logp: Tensor, slope: Tensor, entropy: Tensor, entropy_slope: Tensor) -> None:
    """Turn `logp` [C, V] into -p (slope + (log p + H) entropy_slope), in place.

    The gradient of slope * log p_y + entropy_slope * H by the logits, but for the slope at y itself:
    d log p_y / dz = onehot(y) - p, d H / dz = -p (log p + H).
    """
    for part in zip(*map(_pieces, (logp, slope, entropy, entropy_slope)), strict=True):
        piece, own_slope, own_entropy, own_entropy_slope = part
        p = piece.exp().neg_()
        piece.add_(own_entropy).mul_(own_entropy_slope).add_(own_slope).mul_(p)


def _chunk_logp(rows: Tensor, weight: Tensor, temperature: float) -> Tensor:
    scaled = _as_float(rows @ weight.t()).div_(temperature)
    for piece in _pieces(scaled):
        piece.sub_(piece.logsumexp(1, keepdim=True))
    return scaled


def _pieces(block: Tensor) -> tuple[Tensor, ...]:
    """A block [C, ...] as views of an eighth of its rows each: what is made beside one is that small."""
    return torch.split(block, max(1, -(-len(block) // PIECES)))
