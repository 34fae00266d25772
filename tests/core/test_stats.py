"""Evaluation statistics by enumeration; golden vector V13."""

from __future__ import annotations

from itertools import combinations, product
from math import comb, isinf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.errors import UserError
from noria.core.stats import (
    PairedCounts,
    by_rollout,
    mcnemar,
    mean_interval,
    mean_pass_at_k,
    newcombe_paired,
    paired_bootstrap,
    paired_counts,
    pass_at_k,
    student_t,
    wilson,
)


def test_v13_unbiased_pass_at_k() -> None:
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3)
    assert pass_at_k(10, 3, 5) == pytest.approx(0.9166667, abs=1e-6)
    rows = [("a", True), ("a", True), ("b", False)]
    rollouts = by_rollout(rows)
    assert rollouts == [True, False]
    assert mean_pass_at_k([rollouts], 1).value == pytest.approx(0.5)
    with pytest.raises(ValueError, match="'a' must agree"):
        by_rollout([("a", True), ("a", None)])


@given(st.integers(1, 8), st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_pass_at_k_is_the_share_of_subsets_with_a_success(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    subsets = list(combinations([i < c for i in range(n)], k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(s) for s in subsets) / len(subsets))


def test_pass_at_k_is_exact_for_large_n() -> None:
    assert pass_at_k(5000, 1, 2500) == pytest.approx(0.5)
    assert pass_at_k(5000, 5000, 1) == 1.0
    assert pass_at_k(5000, 0, 5000) == 0.0


@pytest.mark.parametrize(("n", "c", "k"), [(4, 2, 5), (4, 2, 0), (0, 0, 1)])
def test_k_beyond_n_is_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(UserError, match="k must be between 1 and n"):
        pass_at_k(n, c, k)


def test_more_correct_than_rollouts_is_refused() -> None:
    with pytest.raises(UserError, match="correct must be between 0 and n"):
        pass_at_k(2, 3, 1)


def test_unknown_outcomes_are_excluded_and_counted() -> None:
    got = mean_pass_at_k([[True, None, False], [None, None, None], [False, False, False]], 2)
    assert got.value == pytest.approx(0.5)
    assert (got.tasks, got.rollouts, got.unknown, got.short) == (2, 5, 4, 1)
    with pytest.raises(UserError, match="k = 4, n = 3"):
        mean_pass_at_k([[True, None, False]], 4)
    with pytest.raises(UserError, match="n = 0"):
        mean_pass_at_k([], 1)


def test_wilson_solves_its_equation() -> None:
    """Both limits p satisfy |c/n - p| = z sqrt(p (1 - p) / n), the definition of the score interval."""
    for c, n in [(1, 10), (5, 10), (37, 384), (383, 384)]:
        for limit in wilson(c, n):
            assert abs(c / n - limit) == pytest.approx(1.959964 * (limit * (1 - limit) / n) ** 0.5, rel=1e-5)


def test_wilson_at_the_edges() -> None:
    assert wilson(0, 10) == (0.0, pytest.approx(0.277533, abs=1e-5))
    assert wilson(10, 10) == (pytest.approx(0.722467, abs=1e-5), 1.0)
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(5, 10, confidence=0.99)
    assert low < wilson(5, 10)[0] and high > wilson(5, 10)[1]
    with pytest.raises(UserError, match="confidence"):
        wilson(1, 2, confidence=95)


def test_paired_counts_leave_unknown_pairs_out() -> None:
    got = paired_counts([True, False, None, True, False, True], [True, True, True, False, False, None])
    assert got == PairedCounts(both=1, only_new=1, only_old=1, neither=1)
    assert got.difference == 0.0
    with pytest.raises(ValueError, match="zip"):
        paired_counts([True], [])


def test_newcombe_is_antisymmetric_and_holds_the_estimate() -> None:
    counts = PairedCounts(both=20, only_new=12, only_old=2, neither=16)
    low, high = newcombe_paired(counts)
    assert low < counts.difference < high
    assert newcombe_paired(PairedCounts(20, 2, 12, 16)) == pytest.approx((-high, -low))
    assert newcombe_paired(PairedCounts(0, 0, 0, 0)) == (-1.0, 1.0)
    low, high = newcombe_paired(PairedCounts(0, 10, 0, 0))
    assert low > 0.5 and high == 1.0


def test_newcombe_of_independent_margins_squares_and_adds() -> None:
    """Without correlation it is the two Wilson intervals squared and added."""
    counts = PairedCounts(both=4, only_new=4, only_old=4, neither=4)
    low, high = wilson(8, 16)
    half = ((0.5 - low) ** 2 + (high - 0.5) ** 2) ** 0.5
    assert newcombe_paired(counts) == pytest.approx((-half, half))


@pytest.mark.parametrize("truth", [(0.4, 0.2, 0.1, 0.3), (0.7, 0.05, 0.05, 0.2), (0.1, 0.4, 0.1, 0.4)])
def test_newcombe_covers_by_enumeration(truth: tuple[float, float, float, float]) -> None:
    """Exact coverage over every table of 20 tasks: close to the nominal 95 % or above."""
    n, (a, b, c, d) = 20, truth
    covered = 0.0
    for i, j, k in product(range(n + 1), repeat=3):
        rest = n - i - j - k
        if rest < 0:
            continue
        chance = comb(n, i) * comb(n - i, j) * comb(n - i - j, k) * a**i * b**j * c**k * d**rest
        low, high = newcombe_paired(PairedCounts(i, j, k, rest))
        covered += chance * (low <= b - c <= high)
    assert 0.94 <= covered <= 0.999


def test_mcnemar_by_enumeration() -> None:
    for wins, losses in [(0, 0), (1, 0), (5, 1), (3, 3), (2, 9)]:
        got = mcnemar(PairedCounts(7, wins, losses, 4))
        flips = list(product([0, 1], repeat=wins + losses))
        better = sum(sum(f) >= wins for f in flips) / len(flips)
        worse = sum(sum(f) <= wins for f in flips) / len(flips)
        assert got.better == pytest.approx(better) and got.worse == pytest.approx(worse)
        assert got.two_sided == pytest.approx(min(1.0, 2 * min(better, worse)))
    assert mcnemar(PairedCounts(0, 0, 0, 9)).two_sided == 1.0
    assert mcnemar(PairedCounts(0, 900, 700, 0)).better < 1e-6


def test_paired_bootstrap_is_seeded_and_paired() -> None:
    gen = np.random.default_rng(1)
    old = gen.random(200)
    new = old + 0.05
    low, high = paired_bootstrap(old.tolist(), new.tolist(), samples=500)
    assert low == pytest.approx(0.05) and high == pytest.approx(0.05), "a constant gain has no spread"
    noisy = (old + gen.normal(0.1, 0.3, 200)).tolist()
    first = paired_bootstrap(old.tolist(), noisy, samples=2000, seed=3)
    assert first == paired_bootstrap(old.tolist(), noisy, samples=2000, seed=3)
    assert first != paired_bootstrap(old.tolist(), noisy, samples=2000, seed=4)
    difference = np.array(noisy) - old
    half = 1.96 * difference.std(ddof=1) / 200**0.5
    assert first == pytest.approx((difference.mean() - half, difference.mean() + half), abs=0.01)
    with pytest.raises(UserError, match="must not be empty"):
        paired_bootstrap([], [])


@pytest.mark.parametrize(
    ("freedom", "confidence", "quantile"),
    [(1, 0.95, 12.7062), (2, 0.95, 4.30265), (10, 0.95, 2.22814), (30, 0.99, 2.74999), (383, 0.95, 1.96619)],
)
def test_student_t_quantiles(freedom: int, confidence: float, quantile: float) -> None:
    assert student_t(freedom, confidence) == pytest.approx(quantile, rel=2e-5)


def test_mean_with_interval() -> None:
    mean, (low, high) = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert (low, high) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)
    mean, (low, high) = mean_interval([5.0])
    assert mean == 5.0 and isinf(low) and isinf(high)
    with pytest.raises(UserError, match="must not be empty"):
        mean_interval([])
