"""From trajectories to training rows: which tokens carry loss, and with what signal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from noria.core.types import Trajectory
from noria.signals.base import Tokens
from noria.stages import masking
from noria.stages.jobs import parts
from noria.tokens.record import authored
from noria.trainers.rows import Row


def supervised(trajectory: Trajectory, mask_errors: bool, rules: Sequence[str] = masking.DEFAULT) -> Row:
    """A row for supervised fine-tuning: loss on what the assistant wrote, erroneous steps only as input."""
    mask = np.array(authored(trajectory.record), dtype=np.bool_)
    if mask_errors:
        for turn, wrong in zip(trajectory.turns, masking.errors(trajectory.turns, rules), strict=True):
            if wrong:
                mask[turn.token_start : turn.token_end] = False
    return Row.plain(trajectory.record.ids, mask.tolist())


def sampled(trajectory: Trajectory, group: int, route: int = 0) -> Row:
    """A row for reinforcement or distillation: loss only on what the student sampled."""
    row = Row.plain(trajectory.record.ids, trajectory.record.mask, group, route)
    row.logp_mu = np.array(trajectory.record.logp_mu, dtype=np.float64)
    return row


def by_branch(trajectory: Trajectory, make: Callable[[Trajectory], Row]) -> list[Row]:
    """A row of each branch. Every sampled token is in one of them, and together they are one sequence."""
    rows = [make(part) for part in parts(trajectory)]
    for row in rows if len(rows) > 1 else ():
        row.rollout = trajectory.id
    return rows


def rollouts(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows by rollout, in their order: each a row of its own, or the neighbours that are branches of one."""
    found: list[list[Row]] = []
    for row in rows:
        if found and row.rollout and found[-1][0].rollout == row.rollout:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def tokens_of(branches: Sequence[Row]) -> Tokens:
    """All branches of a rollout as a token weight sees them: one after the other, as one sequence."""
    starts = np.cumsum([0, *map(len, branches)])
    moved = [
        (start + a, start + b) for start, row in zip(starts[:-1].tolist(), branches, strict=True) for a, b in row.spans
    ]
    return Tokens(
        np.concatenate([row.mask for row in branches]),
        tuple(role for row in branches for role in row.roles),
        np.concatenate([row.logp_mu for row in branches]),
        np.concatenate([row.logp_old for row in branches]),
        tuple(moved),
    )


def cut(values: NDArray[np.float64], branches: Sequence[Row]) -> list[NDArray[np.float64]]:
    """A stream over all branches, branch by branch."""
    return np.split(values, np.cumsum([len(row) for row in branches])[:-1])


def kept(rows: Sequence[Row]) -> list[Row]:
    """Rows that train on at least one token."""
    return [row for row in rows if row.mask[1:].any()]
