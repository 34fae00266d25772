"""A comparison of the logits of policies and of a teacher, block by block, made again in the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from noria.losses.states import Head, Kernel


@dataclass(frozen=True)
class Sides:
    """What is compared: heads of one policy, or of two that `mix` makes one, and a teacher.

    `matrix` [V, D] and `hidden` [N, D] are the teacher's; `kernel` gives a number for each row of two logits.
    """

    policies: tuple[Head, ...]
    teacher: Head
    matrix: Tensor
    hidden: Tensor
    kernel: Kernel
    mix: Kernel | None

    def compare(self, products: Sequence[Tensor], rows: slice) -> Tensor:
        """The kernel's numbers [R] for the policies' products [R, V] of the rows `rows`."""
        logits = [head.finished(product) for head, product in zip(self.policies, products, strict=True)]
        mine = logits[0] if self.mix is None else self.mix(*logits)
        del logits
        return self.kernel(mine, self.teacher.logits(self.hidden[rows], self.matrix).to(mine.dtype))


def whole(sides: Sides, *inputs: Tensor) -> Tensor:
    """The numbers [N] in one piece, which keeps the logits for the backward pass.

    `inputs` are the hidden states [N, D] and the matrix [V, D] of each policy.
    """
    pairs = zip(sides.policies, inputs[::2], inputs[1::2], strict=True)
    return sides.compare([head.products(hidden, matrix) for head, hidden, matrix in pairs], slice(None))


def blockwise(sides: Sides, rows: int, *inputs: Tensor) -> Tensor:
    """The same with the logits of `rows` rows at a time, in the backward pass too."""
    value: Tensor = _Blocks.apply(sides, rows, *inputs)  # type: ignore[no-untyped-call]
    return value


class _Blocks(torch.autograd.Function):
    """(hidden [N, D], matrix [V, D]) of each policy -> [N]."""

    @staticmethod
    def forward(ctx: Any, sides: Sides, rows: int, *inputs: Tensor) -> Tensor:
        ctx.sides, ctx.rows = sides, rows
        ctx.save_for_backward(*inputs)
        parts = [slice(start, start + rows) for start in range(0, len(inputs[0]), rows)]
        return torch.cat([sides.compare(_products(sides, inputs, part), part) for part in parts])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        sides, inputs, needed = ctx.sides, ctx.saved_tensors, ctx.needs_input_grad[2:]
        # The matrices' gradients are summed over the blocks in at least float32.
        grads = [
            torch.zeros_like(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32) if i % 2 else None)
            if need else None
            for i, (tensor, need) in enumerate(zip(inputs, needed, strict=True))
        ]  # fmt: skip
        for start in range(0, len(slope), ctx.rows):
            part = slice(start, start + ctx.rows)
            found = _slopes(sides, inputs, part, slope[part])
            for i, (head, grad) in enumerate(zip(sides.policies, found, strict=True)):
                hidden, matrix = inputs[2 * i], inputs[2 * i + 1][: head.vocab]
                of_hidden, of_matrix = grads[2 * i], grads[2 * i + 1]
                if of_hidden is not None:
                    of_hidden[part] = grad.to(matrix.dtype) @ matrix
                if of_matrix is not None:
                    of_matrix[: head.vocab].addmm_(grad.t(), hidden[part].to(of_matrix.dtype))
            del found, grad  # or they would live on beside the next block
        rounded = [None if g is None else g.to(tensor.dtype) for g, tensor in zip(grads, inputs, strict=True)]
        return None, None, *rounded


def _products(sides: Sides, inputs: Sequence[Tensor], part: slice) -> list[Tensor]:
    pairs = zip(sides.policies, inputs[::2], inputs[1::2], strict=True)
    return [head.products(hidden[part], matrix) for head, hidden, matrix in pairs]


def _slopes(sides: Sides, inputs: Sequence[Tensor], part: slice, slope: Tensor) -> tuple[Tensor, ...]:
    """Gradients [R, V] by each policy's products."""
    products = [product.requires_grad_() for product in _products(sides, inputs, part)]
    with torch.enable_grad():
        value = sides.compare(products, part)
    return torch.autograd.grad(value, products, slope.to(value.dtype))
