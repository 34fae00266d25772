"""Token efficiency: the points of the specification, both boundaries, and the diagnostics."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.signals import hmpo
from noria.signals.hmpo import HmpoGroup, diagnose

STRICT = hmpo.build(hmpo.Config())
INCLUSIVE = hmpo.build(hmpo.Config(boundary="inclusive"))


def right(hm: hmpo.Hmpo, lengths: list[int]) -> HmpoGroup:
    return hm([1.0] * len(lengths), lengths, [False] * len(lengths))


def test_the_three_point_example_in_both_boundaries() -> None:
    assert right(STRICT, [100, 200, 300]).rewards == (1.0, 0.0, 0.0)
    assert right(INCLUSIVE, [100, 200, 300]).rewards == pytest.approx((1.0, 0.8, 0.0))


def test_a_single_correct_rollout_and_equal_lengths() -> None:
    for lengths in ([120], [120, 120, 120]):
        strict, inclusive = right(STRICT, lengths), right(INCLUSIVE, lengths)
        assert strict.rewards == (0.0,) * len(lengths) and strict.silent
        assert inclusive.rewards == pytest.approx((0.8,) * len(lengths))
    lone = ([1.0, 0.0], [120, 50], [False, False])
    assert STRICT(*lone).silent and not STRICT(*lone).drop
    assert INCLUSIVE(*lone).rewards == pytest.approx((0.8, 0.0)) and not INCLUSIVE(*lone).silent


def test_flat_at_one_until_0_8718_of_the_budget() -> None:
    knee = math.acos(0.2) * 2 / math.pi
    assert knee == pytest.approx(0.8718, abs=1e-4)
    got = right(INCLUSIVE, [1, 8717, 8719, 9999, 10_000, 10_001, 10_002, 20_000, 30_000])
    assert got.rewards[:2] == (1.0, 1.0)
    assert 0.99 < got.rewards[2] < 1.0
    assert got.rewards[3] == pytest.approx(0.8, abs=1e-3)
    assert got.rewards[4] == pytest.approx(0.8)
    assert got.rewards[5:] == (0.0,) * 4


def test_an_even_number_of_correct_rollouts_takes_the_mean_of_the_middle_two() -> None:
    got = right(STRICT, [100, 200, 240, 400])
    assert got.rewards[1] == pytest.approx(min(1.0, math.cos(math.pi * 200 / 440) + 0.8))
    assert got.rewards[2:] == (0.0, 0.0)


def test_wrong_truncated_and_unknown() -> None:
    got = STRICT([0.0, 1.0, None, 1.0, 0.9], [1, 300, 2, 100, 5], [False, False, False, True, False])
    assert got.rewards == (0.0, 0.0, None, 0.0, 0.0)
    assert got.lengths == (300,)
    assert got.accuracy == 0.25


def test_no_correct_rollout_drops_the_group() -> None:
    got = STRICT([0.0, None], [3, 4], [False, False])
    assert got.drop and got.silent and got.rewards == (0.0, None)


def test_an_answer_of_no_tokens_does_not_divide_by_zero() -> None:
    assert right(INCLUSIVE, [0, 0]).rewards == pytest.approx((0.8, 0.8))
    assert right(STRICT, [0, 10]).rewards == (1.0, 0.0)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, None]), st.integers(0, 500), st.booleans()), min_size=1))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_properties(rows: list[tuple[float | None, int, bool]]) -> None:
    rewards, lengths, cut = (list(column) for column in zip(*rows, strict=True))
    for hm in (STRICT, INCLUSIVE):
        got = hm(rewards, lengths, cut)
        paid = [(n, r) for n, r, (reward, _, c) in zip(lengths, got.rewards, rows, strict=True) if reward and not c]
        ordered = [r for _, r in sorted(paid)]
        assert ordered == sorted(ordered, reverse=True), "a shorter correct answer is never paid less"
        assert all(r in (None, 0.0) for r, (reward, _, c) in zip(got.rewards, rows, strict=True) if not reward or c)
        assert all(r is None or 0 <= r <= 1 for r in got.rewards)
        assert got.drop == (not paid)


def test_diagnostics() -> None:
    groups = [
        right(STRICT, [100, 200, 300]),
        right(STRICT, [150]),
        STRICT([0.0, 0.0], [10, 20], [False, False]),
        STRICT([1.0, 0.0, 0.0, 1.0], [900, 50, 50, 800], [False] * 4),
    ]
    got = diagnose(groups)
    assert got == pytest.approx(
        {
            "hmpo/correct_frac": 0.75,
            "hmpo/silent_frac": 0.25,
            "hmpo/long_frac": 0.25,
            "hmpo/long_accuracy": 0.5,
        }
    )
    assert diagnose([]) == {}
