"""Packing of rollouts into rectangular micro-batches: nothing is lost, nothing is mixed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.trainers.packing import micro_batches, pack
from noria.trainers.rows import Row, batch_of, flat

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=14)


def rows_of(sizes: list[int]) -> list[Row]:
    """Rows whose every number tells where it comes from."""
    out = []
    for i, n in enumerate(sizes):
        row = Row.plain([100 * i + t for t in range(n)], [t % 2 for t in range(n)], group=i // 2, route=i % 3)
        row.advantage = np.array([i + t / 100 for t in range(n)])
        row.weight = row.advantage + 0.5
        row.logp_old, row.logp_mu, row.logp_teacher = -row.advantage, -2 * row.advantage, -3 * row.advantage
        out.append(row)
    return out


@given(lengths, st.integers(4, 30))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_lines_hold_every_row_once(sizes: list[int], line_tokens: int) -> None:
    lines = pack(sizes, line_tokens)
    assert sorted(i for line in lines for i in line) == list(range(len(sizes)))
    for line in lines:
        assert len(line) == 1 or sum(sizes[i] for i in line) <= line_tokens


def test_first_fit_decreasing() -> None:
    assert pack([3, 5, 4, 2], 7) == [[1, 3], [2, 0]]
    assert pack([9, 1], 7) == [[0], [1]]  # a row longer than a line has one of its own


@given(lengths, st.integers(4, 30), st.integers(1, 80))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_micro_batches_hold_every_token_once(sizes: list[int], line_tokens: int, tokens: int) -> None:
    rows = rows_of(sizes)
    seen = []
    for micro in micro_batches(rows, line_tokens, tokens):
        lines, width = micro.ids.shape
        assert lines * width <= tokens or lines == 1
        kept = np.zeros(lines * width, dtype=bool)
        for place in micro.places:
            i, start, n, part = place.row, place.start, place.n, place.flat
            assert place.skip == 0
            assert start // width == (start + n - 1) // width
            assert micro.ids.reshape(-1)[part].tolist() == rows[i].ids.tolist()
            assert micro.positions.reshape(-1)[part].tolist() == list(range(n))
            assert micro.segment[part].tolist() == [i] * n
            kept[part] = True
            seen.append(i)
        assert (micro.segment.numpy()[~kept] == -1).all()
    assert sorted(seen) == list(range(len(rows)))


@given(lengths)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_token_sees_its_own_row_up_to_itself(sizes: list[int]) -> None:
    for micro in micro_batches(rows_of(sizes), 14, 60):
        lines, width = micro.ids.shape
        segment = micro.segment.reshape(lines, width)
        for line in range(lines):
            for query in range(width):
                for key in range(width):
                    allowed = key <= query and segment[line, key] == segment[line, query]
                    assert bool(micro.attention[line, 0, query, key]) == bool(allowed)


@given(lengths, st.integers(1, 60))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_streams_of_a_batch_follow_their_rows(sizes: list[int], tokens: int) -> None:
    rows = rows_of(sizes)
    numbers = [10 + i for i in range(len(rows))]
    for micro in micro_batches(rows, 14, tokens):
        logp = torch.arange(micro.segment.numel(), dtype=torch.float64)
        batch = batch_of(rows, micro, logp, None, numbers)
        assert int(batch.mask.sum()) == sum(int(rows[place.row].mask.sum()) for place in micro.places)
        for place in micro.places:
            i, n, part, row = place.row, place.n, place.flat, rows[place.row]
            for name in ("advantage", "weight", "logp_old", "logp_mu", "logp_teacher"):
                assert batch.streams()[name][part].tolist() == getattr(row, name).tolist()
            assert batch.mask[part].tolist() == row.mask.tolist()
            for name, value in (("segment", 10 + i), ("group", row.group), ("route", row.route)):
                assert batch.streams()[name][part].tolist() == [value] * n
        assert flat(rows, micro, "weight", fill=-1.0)[(micro.segment == -1).numpy()].tolist() == [-1.0] * int(
            (micro.segment == -1).sum()
        )


def test_a_row_needs_a_mask_of_its_length() -> None:
    with pytest.raises(ValueError, match="one length: got 2 and 1"):
        Row.plain([1, 2], [1])
