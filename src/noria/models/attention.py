"""Attention of rows that lie one after the other in a line: what a block-diagonal mask says, without what it hides.

Rows are gathered from the line into rectangles of rows of like length, where attention is plainly causal, and their
outputs are put back. A row may begin with tokens that lie with another one; they are gathered with its own. Everything
else of a model works on the line, which holds no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from noria.core.errors import boundary
from noria.models.load import backbone
from noria.models.traits import ROUNDING

#: Name under which transformers finds this attention.
NAME = "noria_rows"
#: A rectangle takes rows down to this part of its longest.
LIKE = 0.8


@dataclass(frozen=True, slots=True)
class Reads:
    """Where rows read: rectangles of positions in the line, and where the output of each position of the line lies.

    `rectangles` are long [n, L], right-padded with any position, and have P places together. `back` is long [T] into P.
    """

    rectangles: tuple[torch.Tensor, ...]
    back: torch.Tensor

    def to(self, device: str) -> Reads:
        """The same on a device."""
        return Reads(tuple(each.to(device) for each in self.rectangles), self.back.to(device))


def reads_of(rows: Sequence[NDArray[np.int64]], owned: Sequence[int]) -> Reads:
    """Reads of rows, given the positions that each reads in order, of which its last `owned` are its own."""
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
    rectangles: list[torch.Tensor] = []
    back = np.zeros(sum(owned), dtype=np.int64)
    at = first = 0
    while first < len(order):
        width = len(rows[order[first]])
        last = first
        while last < len(order) and len(rows[order[last]]) >= LIKE * width:
            last += 1
        grid = np.zeros((last - first, width), dtype=np.int64)
        for k, i in enumerate(order[first:last]):
            n = len(rows[i])
            grid[k, :n] = rows[i]
            back[rows[i][n - owned[i] :]] = at + k * width + np.arange(n - owned[i], n)
        rectangles.append(torch.from_numpy(grid))
        at += grid.size
        first = last
    return Reads(tuple(rectangles), torch.from_numpy(back))


def rows_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    reads: Reads | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers calls it: query [1, H, T, D], key and value [1, K, T, D] -> [1, T, H, D].

    Without `reads` it is SDPA's.
    """
    if reads is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        plain: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
        return plain
    outs = []
    for grid in reads.rectangles:
        q, k, v = (_gathered(states, grid) for states in (query, key, value))
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scaling, enable_gqa=q.shape[1] != k.shape[1]
        )
        outs.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(outs).index_select(0, reads.back)[None], None


def _gathered(states: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """States [1, H, T, D] at the positions of a rectangle [n, L], as [n, H, L, D]."""
    flat = states[0].transpose(0, 1).index_select(0, grid.reshape(-1))
    return flat.view(*grid.shape, *flat.shape[1:]).transpose(1, 2)


def read_by_rows(model: Any) -> bool:
    """Have a model attend row by row where it is told `reads`; False, with nothing changed, where it can't.

    Found by trying two rows that begin alike, in one line and alone. Draws no random number.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, rows_attention)
    before = model.config.get_text_config()._attn_implementation
    with torch.inference_mode():
        same = boundary(lambda: _tried(model), lambda fault: False)
    if not same:
        model.set_attn_implementation(before)
    return same


def _tried(model: Any) -> bool:
    first, second = [1, 5, 3], [1, 5, 4, 2]
    alone = [_hidden(model, row, list(range(len(row)))) for row in (first, second)]
    model.set_attn_implementation(NAME)
    reads = reads_of([np.array([0, 1, 2]), np.array([0, 1, 3, 4])], [3, 2])
    device = str(alone[0].device)
    together = _hidden(model, [*first, *second[2:]], [0, 1, 2, 2, 3], reads=reads.to(device))
    wanted = torch.cat([alone[0], alone[1][2:]])
    gap = (together - wanted).abs().max() / wanted.abs().max().clamp(min=1e-6)
    return bool(gap < ROUNDING[wanted.dtype])


def _hidden(model: Any, ids: Sequence[int], positions: Sequence[int], **how: Any) -> torch.Tensor:
    device, size = model.device, int(model.config.get_text_config().vocab_size)
    line = torch.tensor([ids], device=device) % size
    hidden: torch.Tensor = backbone(model)(
        input_ids=line, position_ids=torch.tensor([positions], device=device), use_cache=False, **how
    ).last_hidden_state
    return hidden[0]
