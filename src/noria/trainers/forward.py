"""A forward pass that is kept from scoring to the step: where one micro-batch holds the step, it need not run twice.

pi_old is the policy before the step's first update. If the whole step is one mini-batch in one micro-batch, its
log-probabilities are those that the step's own forward pass finds, so scoring runs that pass and the step takes it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from noria.trainers.packing import Micro
from noria.trainers.rows import Row


@dataclass(frozen=True, slots=True)
class Forward:
    """One micro-batch with its hidden states [R·T, D], log-probabilities and entropies [R·T]."""

    micro: Micro
    hidden: torch.Tensor
    logp: torch.Tensor
    entropy: torch.Tensor


@dataclass(frozen=True, slots=True)
class Kept:
    """The forward pass over `rows` as they were then."""

    rows: tuple[Row, ...]
    ids: tuple[NDArray[np.int64], ...]
    masks: tuple[NDArray[np.bool_], ...]
    temperature: float
    forward: Forward

    @classmethod
    def of(cls, rows: Sequence[Row], temperature: float, forward: Forward) -> Kept:
        """Remember the rows as they are."""
        return cls(
            tuple(rows), tuple(row.ids for row in rows), tuple(row.mask.copy() for row in rows), temperature, forward
        )

    def serves(self, rows: Sequence[Row], temperature: float) -> bool:
        """Whether a step over `rows`, in any order, may go on from here: same tokens, and nothing more is trained."""
        if temperature != self.temperature or {id(row) for row in rows} != {id(row) for row in self.rows}:
            return False
        unchanged = all(row.ids is ids for row, ids in zip(self.rows, self.ids, strict=True))
        if not unchanged or any((row.mask & ~mask).any() for row, mask in zip(self.rows, self.masks, strict=True)):
            return False
        places = self.forward.micro.places
        return all((self.rows[place.row].opening() or place.skip) >= place.skip for place in places)


def of_rows(rows: Sequence[Row], passes: Iterable[tuple[Micro, torch.Tensor]]) -> list[NDArray[np.float64]]:
    """Flat log-probabilities of micro-batches as one array [T] per row; 0 where no pass has any."""
    out: list[NDArray[np.float64]] = [np.zeros(len(row)) for row in rows]
    for micro, logp in passes:
        values = logp.double().numpy()
        for place in micro.places:
            out[place.row][place.own] = values[place.flat]
    return out
