"""Which streams each loss term sees: the row's own, or those of its channel, each with its own denominators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from noria.losses.base import Batch, Denominators, Loss
from noria.trainers.packing import Micro
from noria.trainers.rows import Channel, Row, joined


class Views:
    """The terms' views of one global batch. Made once per optimiser step; `counts` are the rows' own denominators.

    A term takes the channel of its own name where a row has one, else that of its family. A row with channels that
    has neither for a term of a family gives that term nothing.
    """

    def __init__(self, rows: Sequence[Row], terms: Mapping[str, Loss], counts: Denominators) -> None:
        self.rows, self.counts = rows, counts
        self.keys: dict[str, tuple[str, str] | None] = {}
        found: dict[tuple[str, str], list[Channel | None]] = {}
        for name, term in terms.items():
            named = any(name in row.channels for row in rows)
            own = not named and not (term.family and any(row.channels for row in rows))
            self.keys[name] = None if own else (name if named else "", term.family)
        for key in self.keys.values():
            if key is not None and key not in found:
                found[key] = [_channel(row, *key) for row in rows]
        self.channels = found
        self.denominators = {key: _counts(rows, channels) for key, channels in found.items()}

    def batches(self, micro: Micro, batch: Batch) -> dict[str, tuple[Batch, Denominators]]:
        """The batch and the denominators of each term in one micro-batch."""
        seen = {key: self._seen(micro, batch, channels) for key, channels in self.channels.items()}
        return {
            name: (batch, self.counts) if key is None else (seen[key], self.denominators[key])
            for name, key in self.keys.items()
        }

    def _seen(self, micro: Micro, batch: Batch, channels: Sequence[Channel | None]) -> Batch:
        mask = torch.zeros_like(batch.mask)
        weight, advantage = torch.zeros_like(batch.weight), batch.advantage.clone()
        for place in micro.places:
            channel = channels[place.row]
            if channel is None:
                continue
            part, own = place.flat, place.own
            mask[part] = torch.from_numpy(channel.mask[own])
            weight[part] = torch.from_numpy(channel.weight[own]).to(weight.dtype)
            if channel.advantage is not self.rows[place.row].advantage:
                advantage[part] = torch.from_numpy(channel.advantage[own]).to(advantage.dtype)
        return replace(batch, mask=mask, weight=weight, advantage=advantage)


def _channel(row: Row, name: str, family: str) -> Channel | None:
    if name in row.channels:
        return row.channels[name]
    if family and row.channels:
        return row.channels.get(family)
    return None if name and not family else Channel(row.mask, row.weight, row.advantage)


def _counts(rows: Sequence[Row], channels: Sequence[Channel | None]) -> Denominators:
    masks = [
        _trained(np.zeros(len(row), dtype=np.bool_) if channel is None else channel.mask)
        for row, channel in zip(rows, channels, strict=True)
    ]
    lengths = [len(row) for row in rows]
    of_row = (range(len(rows)), [row.group for row in rows], [row.route for row in rows])
    segment, group, route = (torch.from_numpy(np.repeat(numbers, lengths)) for numbers in of_row)
    return joined(Denominators.of(torch.from_numpy(np.concatenate(masks)), segment, group, route), rows)


def _trained(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.concatenate([[False], mask[1:]]).astype(np.bool_)
