"""From trajectories to training rows: which tokens carry loss, and with what signal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noria.core.types import Trajectory
from noria.tokens.record import authored
from noria.trainers.rows import Row


def supervised(trajectory: Trajectory, mask_errors: bool) -> Row:
    """A row for supervised fine-tuning: loss on what the assistant wrote, erroneous steps only as input."""
    mask = np.array(authored(trajectory.record), dtype=np.bool_)
    if mask_errors:
        for turn, wrong in zip(trajectory.turns, error_turns(trajectory), strict=True):
            if wrong:
                mask[turn.token_start : turn.token_end] = False
    return Row.plain(trajectory.record.ids, mask.tolist())


def error_turns(trajectory: Trajectory) -> list[bool]:
    """Which turns are errors: the world refused one of their calls, each of which is answered on a line.

    Running tests, or reading something that turns out wrong, is a diagnostic and never an error, whatever it prints.
    """
    return [
        any(line.startswith("error:") for line in turn.observation.splitlines()) for turn in trajectory.turns
    ]


def sampled(trajectory: Trajectory, group: int, route: int = 0) -> Row:
    """A row for reinforcement or distillation: loss only on what the student sampled."""
    row = Row.plain(trajectory.record.ids, trajectory.record.mask, group, route)
    row.logp_mu = np.array(trajectory.record.logp_mu, dtype=np.float64)
    return row


def kept(rows: Sequence[Row]) -> list[Row]:
    """Rows that train on at least one token."""
    return [row for row in rows if row.mask[1:].any()]
