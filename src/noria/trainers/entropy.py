"""Entropies of the distributions that rows' tokens were drawn from: one more forward pass, for signals that ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from noria.losses.states import Head
from noria.trainers.rows import Row, trained_positions

#: Tokens whose logits exist at once.
CHUNK_TOKENS = 1024


class Sees(Protocol):
    """What is needed of a trainer."""

    def head(self, name: str = "student", temperature: float = 1.0) -> Head: ...
    def states(self, rows: Sequence[Row], tokens: int = 8192) -> list[torch.Tensor]: ...


def entropies(trainer: Sees, rows: Sequence[Row], temperature: float = 1.0) -> list[NDArray[np.float64]]:
    """In nats for each row [T], at the tokens of its mask; 0 elsewhere and at a first token. No gradient."""
    head = trainer.head(temperature=temperature)
    out = []
    with torch.no_grad():
        matrix = head.load()
        for row, hidden in zip(rows, trainer.states(rows), strict=True):
            logps = (head.logits(part, matrix).log_softmax(-1) for part in torch.split(hidden, CHUNK_TOKENS))
            found = [-(logp.exp() * logp).sum(-1).double().cpu() for logp in logps]
            values = np.zeros(len(row))
            values[trained_positions(row)] = torch.cat(found).numpy()
            out.append(values)
    return out
