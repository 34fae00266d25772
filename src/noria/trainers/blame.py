"""Where a number that is not finite came from: a step that failed is asked once, so it may take its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray

from noria.core.errors import NoriaError
from noria.trainers.rows import Row

#: Parameters and rows that a message names.
NAMED = 3
#: Bounds beyond which a setting is told as unusual: AdamW's learning rate, alpha / rank, temperatures, coefficients.
MOST_LR, MOST_SCALE, TEMPERATURES, MOST_COEF = 0.02, 16.0, (0.1, 10.0), 100.0
#: Who makes a stream, and so what to do where it is ill.
_MAKERS = {
    "advantage": "see what the phase's signal and the worlds' rewards gave these rows",
    "weight": "see the token weights in use",
    "logp_old": "the model scored these rows so before the step: take dtype float32, or lower lr",
    "logp_mu": "the engine told these: see its dtype and temperature",
    "logp_teacher": "the teacher told these: see its weights, dtype and temperature",
    "logp_ref": "the reference told these: see its weights and dtype",
}
_STREAMS = tuple(_MAKERS)
_USUAL = "lower lr, or a coef of the loss; grad_norm clips finite gradients only"


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
    alone: Mapping[str, Sequence[int]] = MappingProxyType({}),
    odd: Sequence[str] = (),
) -> BadStep:
    """The fault of a step, told by number, parameter and row.

    Args:
        parameters: name, values and gradient of everything that is trained, before anything was clipped.
        suspects: rows of the micro-batches whose numbers were not finite.
        score: log-probabilities of the rows under the weights as they are.
        alone: terms whose gradient alone is not finite, with the rows of the first line where it is not.
        odd: settings that are far from what is usual (`unusual`).
    """
    names = [name for name, value in metrics.items() if not np.isfinite(value)]
    found, blamed = [f"{', '.join(names) or 'the gradient norm'} is not"], list(suspects)
    fixes: list[str] = []
    weights, gradients = _parameters(parameters)
    if weights:
        found.append(f"the weights themselves are not ({_some(weights)})")
        fixes.append("start from weights that are whole, or go back to a state before they were spoilt")
    streams = _streams(rows)
    if streams:
        blamed = sorted({i for members in streams.values() for i in members})
        found.append("the rows' " + ", ".join(f"{stream} is not (rows {_some(at)})" for stream, at in streams.items()))
        fixes += [_MAKERS[stream] for stream in streams]
    elif not weights:
        unread = [i for i, (row, logp) in enumerate(zip(rows, score(), strict=True)) if not _finite(logp, row)]
        if unread:
            blamed = unread
            found.append(f"the model's log-probabilities are not (rows {_some(unread)})")
            fixes.append("the model's own numbers overflow: take dtype float32, or lower lr")
    for name, at in alone.items():
        blamed = blamed or list(at)
        found.append(f"the gradient of {name} alone is not, first in rows {_some(at)}")
    if gradients and not weights:
        found.append(f"first bad gradient in {_some(gradients)}")
    if odd:
        fixes.insert(0, f"bring back what is far from usual: {', '.join(odd)}")
    return BadStep(f"a step must be finite: {'; '.join(found)} - {'; '.join(fixes or [_USUAL])}", blamed)


def unusual(lr: float, temperature: float, coefficients: Mapping[str, float], lora: tuple[float, int]) -> list[str]:
    """Settings so far from what trains that they are the first to look at. `lora` is the adapter's alpha and rank."""
    alpha, rank = lora
    found = [f"lr = {lr:g} (usual: up to {MOST_LR:g})"] if lr > MOST_LR else []
    if rank and alpha > MOST_SCALE * rank:
        found.append(f"lora_alpha = {alpha:g} at lora_rank = {rank} (usual: up to {MOST_SCALE:g} times the rank)")
    low, high = TEMPERATURES
    if not low <= temperature <= high:
        found.append(f"temperature = {temperature:g} (usual: {low:g} to {high:g})")
    found += [
        f"coef = {c:g} of {name} (usual: up to {MOST_COEF:g})" for name, c in coefficients.items() if abs(c) > MOST_COEF
    ]
    return found


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
