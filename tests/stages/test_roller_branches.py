"""Rows of a rollout in branches: each token once, and one rollout in every mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from stage_helpers import rolled

from noria.core.types import Branch, Trajectory
from noria.stages import rows as rows_of
from noria.trainers.rows import Row, denominators


def branched(t: Trajectory, n: int) -> Trajectory:
    """The same rollout with `n` branches before its last, each of one turn that is no longer shown."""
    turns = tuple(replace(turn, token_start=0, token_end=0) for turn in t.turns[:1]) * n
    return replace(
        t, turns=(*turns, *t.turns), branches=tuple(Branch(t.record, t.turns, k, "window") for k in range(n))
    )


def test_branches_are_rows_of_one_sequence() -> None:
    plain, long = rolled(1.0, ("a",), tokens=3), branched(rolled(1.0, ("a",), tokens=2), 2)
    rows = [
        row
        for g, t in enumerate([plain, long, plain])
        for row in rows_of.by_branch(replace(t, id=str(g)), lambda part, g=g: rows_of.sampled(part, g // 2))
    ]
    own = [int(row.mask[1:].sum()) for row in rows]
    assert [row.rollout for row in rows] == ["", "1", "1", "1", ""]
    assert sum(own[1:4]) == long.action_tokens
    counts = denominators(rows)
    assert counts.sequences.item() == 3 and counts.route_sequences.tolist() == [3.0]
    assert counts.sequence_tokens.tolist() == own
    assert counts.rollout_tokens.tolist() == [own[0], *[sum(own[1:4])] * 3, own[4]]
    assert counts.action_tokens.item() == sum(own) and counts.group_tokens.tolist() == [sum(own[:4]), own[4]]
    # A mean over rollouts gives every one of them the same share.
    shares = np.array(own) / counts.rollout_tokens.numpy() / counts.sequences.item()
    assert np.allclose([shares[0], shares[1:4].sum(), shares[4]], 1 / 3)


def test_rollouts_without_branches_are_counted_as_ever() -> None:
    rows = [Row.plain([1, 2, 3], [0, 1, 1], 0), Row.plain([1, 2], [0, 1], 0)]
    counts = denominators(rows)
    assert counts.rollout_tokens is counts.sequence_tokens and counts.sequences.item() == 2
