"""Cache layers for many sequences at once: each owns a row, and a forward pass reads and writes a slice of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import CacheLayerMixin, LinearAttentionCacheLayerMixin


class SlotLayer(CacheLayerMixin):
    """Keys and values of one attention layer, `[row, kv_head, position, head_dim]`, written at each row's own position.

    The stores take their shapes from the first keys and values that they see.
    """

    is_sliding = False

    def __init__(self, slots: int, length: int) -> None:
        super().__init__()
        self.slots, self.length = slots, length
        self.is_initialized = True
        self.first, self.last, self.width = 0, 0, 0
        self.positions = torch.zeros(0, 0, dtype=torch.long)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys: torch.Tensor | None
        self.values: torch.Tensor | None
        self.keys, self.values = (
            states.new_zeros(self.slots, states.shape[1], self.length, states.shape[3])
            for states in (key_states, value_states)
        )

    def aim(self, first: int, last: int, positions: torch.Tensor, width: int) -> None:
        """Choose rows `first:last`; their new tokens go to `positions` [rows, new]; `width` columns are read."""
        self.first, self.last, self.positions, self.width = first, last, positions, width

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.keys is None or self.values is None:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        keys, values = self.keys[self.first : self.last], self.values[self.first : self.last]
        rows = torch.arange(self.last - self.first, device=keys.device)[:, None]
        keys[rows, :, self.positions] = key_states.transpose(1, 2)
        values[rows, :, self.positions] = value_states.transpose(1, 2)
        return keys[:, :, : self.width], values[:, :, : self.width]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.width, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return self.length

    def swap(self, a: int, b: int, width: int) -> None:
        """Exchange the first `width` positions of two rows."""
        for store in (self.keys, self.values):
            if store is not None and width:
                held = store[a, :, :width].clone()
                store[a, :, :width] = store[b, :, :width]
                store[b, :, :width] = held

    def copy(self, row: int, to: Sequence[int], width: int) -> None:
        """Write the first `width` positions of a row into other rows too."""
        for store in (self.keys, self.values):
            if store is not None:
                store[list(to), :, :width] = store[row, :, :width].clone()

    def clear(self, rows: Sequence[int]) -> None:
        """Nothing to do: what was written before is never read again."""


class StateLayer(LinearAttentionCacheLayerMixin):
    """State of one linear-attention layer: the last inputs of its convolution and its recurrent matrix, a row each.

    A state of zeros is the state before the first token. Every row of a pass must bring equally many tokens, since
    padding would enter the state.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(number_of_states=1)
        self.slots = slots
        self.first, self.last = 0, 0
        self._stores: dict[str, torch.Tensor] = {}

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        return

    def aim(self, first: int, last: int, positions: torch.Tensor, width: int) -> None:
        """Choose rows `first:last`."""
        self.first, self.last = first, last
        for name, states in (("conv", self.conv_states), ("recurrent", self.recurrent_states)):
            if name in self._stores:
                states[0] = self._stores[name][first:last]
        self.has_previous_state[0] = "recurrent" in self._stores

    def update_conv_state(
        self, conv_states: torch.Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **kwargs: Any
    ) -> torch.Tensor:
        before = self._rows("conv", (*conv_states.shape[1:-1], conv_kernel_size or conv_states.shape[-1]), conv_states)
        full = torch.cat([before, conv_states], dim=-1)
        before.copy_(full[..., -before.shape[-1] :])
        return full

    def update_recurrent_state(self, recurrent_states: torch.Tensor, state_idx: int = 0, **kwargs: Any) -> torch.Tensor:
        return self._rows("recurrent", tuple(recurrent_states.shape[1:]), recurrent_states).copy_(recurrent_states)

    def swap(self, a: int, b: int, width: int) -> None:
        """Exchange two rows; a state has no `width`."""
        for store in self._stores.values():
            store[[a, b]] = store[[b, a]]

    def copy(self, row: int, to: Sequence[int], width: int) -> None:
        """Write the state of a row into other rows too."""
        for store in self._stores.values():
            store[list(to)] = store[row].clone()

    def clear(self, rows: Sequence[int]) -> None:
        """Put rows back to the state before their first token."""
        for store in self._stores.values():
            for row in rows:
                store[row].zero_()

    def _rows(self, name: str, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        if name not in self._stores:
            self._stores[name] = like.new_zeros(self.slots, *shape)
        return self._stores[name][self.first : self.last]
