"""Hidden states and heads: what a loss over the whole vocabulary reads instead of stored logits.

A teacher's forward pass leaves only its hidden states after the final norm, at the tokens that carry loss. Logits
are made from them a chunk of tokens at a time, when a loss needs them, and made again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from noria.core.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from noria.losses.base import Batch

#: (student's logits [C, V], teacher's logits [C, V]) -> a divergence per row [C].
Kernel = Callable[["Tensor", "Tensor"], "Tensor"]

#: A divergence works on blocks of rows. Ten to fourteen tensors of a block's logits exist at once, so a block is this
#: part of the rows whose logits may be held: together they stay below one chunk.
BLOCKS = 16
#: Logits that are too few to be cut further (1 MiB in float32).
BLOCK_LOGITS = 1 << 18
#: Logits of a micro-batch up to which they are kept for the backward pass (16 MiB in float32) and not made again.
HELD_LOGITS = 1 << 22


@dataclass(frozen=True)
class Head:
    """How hidden states [N, D] become logits [N, V].

    name         of the model it belongs to, for messages and counters
    load         gives the matrix [V, D]; called each time, so that an owner may keep it elsewhere
    temperature  logits are divided by it
    scale        logits are multiplied by it before (some architectures have one; 1 = none)
    softcap      logits are squashed to ±softcap by tanh before (0 = none)
    vocab        rows of the matrix that are tokens; the rest is padding (None = all)
    chunk_tokens tokens whose logits may be held at once
    """

    name: str
    load: Callable[[], Tensor]
    temperature: float = 1.0
    scale: float = 1.0
    softcap: float = 0.0
    vocab: int | None = None
    chunk_tokens: int = 1024

    def logits(self, hidden: Tensor, matrix: Tensor) -> Tensor:
        """Logits [N, V] in at least float32 for `hidden` [N, D] and `matrix` = `load()`."""
        return self.finished(self.products(hidden, matrix))

    def products(self, hidden: Tensor, matrix: Tensor) -> Tensor:
        """What the matrix makes of `hidden`, [N, V] in at least float32."""
        found = hidden @ matrix[: self.vocab].t()
        return found if found.element_size() >= 4 else found.float()

    def finished(self, products: Tensor) -> Tensor:
        """Logits [N, V] of `products` [N, V]: scaled, capped, at the temperature."""
        found = products * self.scale if self.scale != 1 else products
        found = (found / self.softcap).tanh() * self.softcap if self.softcap else found
        return found / self.temperature if self.temperature != 1 else found


@dataclass(frozen=True)
class TeacherStates:
    """One teacher's hidden states [N, D] at `positions` [N] (long, each once) of a batch, and its share there [N]."""

    head: Head
    positions: Tensor
    hidden: Tensor
    share: Tensor

    def select(self, index: Tensor, length: int) -> TeacherStates:
        """The states of the positions in `index` (long, each once, or a bool mask) of a batch of `length` tokens."""
        chosen = index.nonzero().squeeze(1) if index.dtype == self.positions.new_zeros(()).bool().dtype else index
        where = self.positions.new_full((length,), -1)
        where[chosen] = chosen.new_ones(len(chosen)).cumsum(0) - 1
        new = where[self.positions]
        keep = new >= 0
        return replace(self, positions=new[keep], hidden=self.hidden[keep], share=self.share[keep])


def divergence(batch: Batch, kernel: Kernel, mix: Kernel | None = None) -> Tensor:
    """Σ over teachers of share · kernel(student, teacher) for each token [T], 0.0 off the mask.

    Gradients reach the student's hidden states and head only. With `mix` the student's side is what it makes of the
    student's logits and those of the second policy; gradients reach both then. Beside the states, the heads and their
    gradients, less than one chunk of the student's head is held, `chunk_tokens` rows of logits.

    Raises:
        ValueError: the batch has no hidden states.
        UserError: a teacher, or the second policy, has a vocabulary of another size than the student's.
    """
    import torch

    from noria.losses._blocks import Sides, blockwise, whole

    hidden, head = batch.need("hidden"), batch.head
    if head is None:
        raise ValueError("batch must hold the student's head: compute it, the loss term needs hidden states")
    policies = [(head, hidden, head.load())]
    if mix is not None:
        policies.append(_second(batch, head, policies[0][2]))
    out = torch.zeros_like(batch.logp)
    for states in batch.teachers:
        keep = batch.mask.bool()[states.positions].nonzero().squeeze(1)
        if not len(keep):
            continue
        theirs = states.head.load().detach().to(hidden.device, states.hidden.dtype)
        _same_vocabulary(head, policies[0][2], states.head, theirs)
        at = states.positions[keep].to(hidden.device)
        other = states.hidden[keep].detach().to(hidden.device)
        sides = Sides(tuple(policy[0] for policy in policies), states.head, theirs, other, kernel, mix)
        inputs = [tensor for _, own, matrix in policies for tensor in (own[at], matrix)]
        few = len(keep) * len(theirs) <= HELD_LOGITS
        value = whole(sides, *inputs) if few else blockwise(sides, block_rows(head, len(theirs)), *inputs)
        out = out.index_add(0, states.positions[keep], value.to(out) * states.share[keep].to(out.dtype))
    if not out.requires_grad:  # nothing was compared; the value is still one to call `backward` on
        out = out + batch.logp.where(batch.mask.bool() & False, batch.logp.new_zeros(())) * 0
    return out


def block_rows(head: Head, vocabulary: int) -> int:
    """Rows of a block of logits over `vocabulary` tokens."""
    return max(1, head.chunk_tokens // BLOCKS, BLOCK_LOGITS // max(1, vocabulary))


def _second(batch: Batch, head: Head, matrix: Tensor) -> tuple[Head, Tensor, Tensor]:
    """Head, hidden states and matrix of the batch's second policy."""
    second, other = batch.need("auxiliary"), batch.auxiliary_head
    if other is None:
        raise ValueError("batch must hold the auxiliary's head: compute it, the loss term mixes two policies")
    theirs = other.load()
    _same_vocabulary(head, matrix, other, theirs)
    return other, second, theirs


def _same_vocabulary(mine: Head, matrix: Tensor, other: Head, theirs: Tensor) -> None:
    sizes = [min(head.vocab or len(rows), len(rows)) for head, rows in ((mine, matrix), (other, theirs))]
    if sizes[0] != sizes[1]:
        raise UserError(
            f"a divergence needs one vocabulary: the student has {sizes[0]} tokens and {other.name!r} has {sizes[1]} - "
            "choose a model with the student's tokenizer"
        )
