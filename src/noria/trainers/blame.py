"""Where a number that is not finite came from: a step that failed is asked once, so it may take its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from noria.core.errors import NoriaError
from noria.trainers.rows import Row

#: Parameters and rows that a message names.
NAMED = 3
_STREAMS = ("advantage", "weight", "logp_old", "logp_mu", "logp_teacher", "logp_ref")


class BadStep(NoriaError):
    """A loss or gradient that is not finite; the weights are as before the step.

    `rows` are indices of the rows that it came from, as far as that can be told.
    """

    def __init__(self, message: str, rows: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.rows = tuple(rows)


def is_bad(metrics: Mapping[str, float | torch.Tensor]) -> bool:
    """Whether one of the numbers is NaN or infinite."""
    return any(not np.isfinite(float(value)) for value in metrics.values())


def bad_step(
    metrics: Mapping[str, float],
    parameters: Iterable[tuple[str, torch.Tensor, torch.Tensor | None]],
    rows: Sequence[Row],
    suspects: Sequence[int],
    score: Callable[[], Sequence[NDArray[np.float64]]],
) -> BadStep:
    """The fault of a step, told by number, parameter and row.

    Args:
        parameters: name, values and gradient of everything that is trained, before anything was clipped.
        suspects: rows of the micro-batches whose numbers were not finite.
        score: log-probabilities of the rows under the weights as they are.
    """
    names = [name for name, value in metrics.items() if not np.isfinite(value)]
    found, blamed = [f"{', '.join(names) or 'the gradient norm'} is not"], list(suspects)
    weights, gradients = _parameters(parameters)
    if weights:
        found.append(f"the weights themselves are not ({_some(weights)})")
    streams = _streams(rows)
    if streams:
        blamed = sorted({i for members in streams.values() for i in members})
        found.append("the rows' " + ", ".join(f"{stream} is not (rows {_some(at)})" for stream, at in streams.items()))
    elif not weights:
        unread = [i for i, (row, logp) in enumerate(zip(rows, score(), strict=True)) if not _finite(logp, row)]
        if unread:
            blamed = unread
            found.append(f"the model's log-probabilities are not (rows {_some(unread)})")
    if gradients and not weights:
        found.append(f"first bad gradient in {_some(gradients)}")
    return BadStep(f"a step must be finite: {'; '.join(found)} - lower lr, or lower grad_norm", blamed)


def _parameters(
    parameters: Iterable[tuple[str, torch.Tensor, torch.Tensor | None]],
) -> tuple[list[str], list[str]]:
    """Names of those whose values, and of those whose gradients, are not finite."""
    weights, gradients = [], []
    for name, value, gradient in parameters:
        if not bool(torch.isfinite(value).all()):
            weights.append(name)
        if gradient is not None and not bool(torch.isfinite(gradient).all()):
            gradients.append(name)
    return weights, gradients


def _streams(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Indices of rows whose streams are not finite at tokens that carry loss, by stream."""
    found: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        values = [row.advantage, row.weight, row.logp_old, row.logp_mu, row.logp_teacher, row.logp_ref]
        for stream, value in zip(_STREAMS, values, strict=True):
            if value is not None and not _finite(value, row):
                found.setdefault(stream, []).append(i)
    return found


def _finite(values: NDArray[np.float64], row: Row) -> bool:
    return bool(np.isfinite(values[row.mask]).all())


def _some(found: Sequence[object]) -> str:
    more = len(found) - NAMED
    return ", ".join(map(str, found[:NAMED])) + (f" and {more} more" if more > 0 else "")
