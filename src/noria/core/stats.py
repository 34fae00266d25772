"""Statistics of evaluation: pass@k, intervals and paired tests. Pure Python and numpy; all seeded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist

import numpy as np

from noria.core.errors import UserError

Interval = tuple[float, float]


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased 1 - C(n-c, k) / C(n, k): chance that k of n rollouts hold one of the c correct ones.

    Raises:
        UserError: k > n (more rollouts asked about than were made), or counts that cannot be.
    """
    if not 1 <= k <= n:
        raise UserError(f"k must be between 1 and n: got k = {k}, n = {n} - sample at least k rollouts per task")
    if not 0 <= correct <= n:
        raise UserError(f"correct must be between 0 and n: got {correct}, n = {n} - count rollouts, not rows")
    return 1.0 - comb(n - correct, k) / comb(n, k)


@dataclass(frozen=True, slots=True)
class PassAtK:
    """Mean over tasks. `unknown` rollouts took no part; `short` tasks (fewer than k known) are left out."""

    value: float
    k: int
    tasks: int
    rollouts: int
    unknown: int
    short: int


def mean_pass_at_k(tasks: Sequence[Sequence[bool | None]], k: int) -> PassAtK:
    """pass@k averaged over tasks; each task is its rollouts' outcomes, None where unknown.

    Raises:
        UserError: k exceeds the rollouts of every task.
    """
    if not tasks or max(len(task) for task in tasks) < k:
        most = max((len(task) for task in tasks), default=0)
        raise UserError(f"k must be at most the rollouts per task: got k = {k}, n = {most} - lower k or sample more")
    known = [[outcome for outcome in task if outcome is not None] for task in tasks]
    scored = [pass_at_k(len(task), sum(task), k) for task in known if len(task) >= k]
    return PassAtK(
        value=float(np.mean(scored)) if scored else 0.0,
        k=k,
        tasks=len(scored),
        rollouts=sum(len(task) for task in known),
        unknown=sum(len(task) for task in tasks) - sum(len(task) for task in known),
        short=len(tasks) - len(scored),
    )


def by_rollout(rows: Iterable[tuple[str, bool | None]]) -> list[bool | None]:
    """One outcome per rollout from rows of (rollout id, outcome): several rows of one rollout count once.

    Raises:
        ValueError: rows of one rollout disagree.
    """
    seen: dict[str, bool | None] = {}
    for rollout, outcome in rows:
        if seen.setdefault(rollout, outcome) != outcome:
            raise ValueError(f"rows of rollout {rollout!r} must agree: got {seen[rollout]} and {outcome}")
    return list(seen.values())


def wilson(correct: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a proportion; (0, 1) when nothing was observed."""
    if n == 0:
        return 0.0, 1.0
    z = _z(confidence)
    p = correct / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (0.0 if correct == 0 else max(0.0, centre - half)), (1.0 if correct == n else min(1.0, centre + half))


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """The same tasks under two models: solved by both, only by the new, only by the old, by neither."""

    both: int
    only_new: int
    only_old: int
    neither: int

    @property
    def n(self) -> int:
        return self.both + self.only_new + self.only_old + self.neither

    @property
    def difference(self) -> float:
        """Success rate of the new model minus that of the old one."""
        return (self.only_new - self.only_old) / self.n if self.n else 0.0


def paired_counts(old: Sequence[bool | None], new: Sequence[bool | None]) -> PairedCounts:
    """Cross-tabulate outcomes of the same tasks in one order; a pair with an unknown side is left out."""
    pairs = [(a, b) for a, b in zip(old, new, strict=True) if a is not None and b is not None]
    return PairedCounts(
        both=sum(a and b for a, b in pairs),
        only_new=sum(b and not a for a, b in pairs),
        only_old=sum(a and not b for a, b in pairs),
        neither=sum(not a and not b for a, b in pairs),
    )


def newcombe_paired(counts: PairedCounts, confidence: float = 0.95) -> Interval:
    """Interval of the difference of paired proportions (Newcombe 1998, method 10).

    Score-based, with the correlation corrected for continuity; (-1, 1) when nothing was observed.
    """
    n = counts.n
    if n == 0:
        return -1.0, 1.0
    new_total, old_total = counts.both + counts.only_new, counts.both + counts.only_old
    p_new, p_old = new_total / n, old_total / n
    low_new, high_new = wilson(new_total, n, confidence)
    low_old, high_old = wilson(old_total, n, confidence)
    phi = _phi(counts)
    down, up = p_new - low_new, high_new - p_new
    down_old, up_old = p_old - low_old, high_old - p_old
    below = sqrt(max(0.0, down**2 - 2 * phi * down * up_old + up_old**2))
    above = sqrt(max(0.0, up**2 - 2 * phi * up * down_old + down_old**2))
    return max(-1.0, counts.difference - below), min(1.0, counts.difference + above)


def _phi(counts: PairedCounts) -> float:
    """Correlation of the two outcomes with the continuity correction of method 10; 0 if a margin is empty."""
    a, b, c, d = counts.both, counts.only_new, counts.only_old, counts.neither
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    if margins == 0:
        return 0.0
    numerator: float = a * d - b * c
    if numerator > 0:
        numerator = max(0.0, numerator - counts.n / 2)
    return float(numerator / sqrt(margins))


@dataclass(frozen=True, slots=True)
class McNemar:
    """Exact p-values: that the models differ (two-sided), that the new one is better, that it is worse."""

    two_sided: float
    better: float
    worse: float


def mcnemar(counts: PairedCounts) -> McNemar:
    """Exact McNemar test: the discordant pairs are fair coin flips if the models are equally good."""
    wins, losses = counts.only_new, counts.only_old
    flips = wins + losses
    better = sum(comb(flips, i) for i in range(wins, flips + 1)) / 2**flips
    worse = sum(comb(flips, i) for i in range(losses, flips + 1)) / 2**flips
    return McNemar(two_sided=min(1.0, 2 * min(better, worse)), better=better, worse=worse)


def paired_bootstrap(
    old: Sequence[float], new: Sequence[float], confidence: float = 0.95, samples: int = 10_000, seed: int = 0
) -> Interval:
    """Percentile interval of mean(new - old), resampling tasks.

    `old` and `new` are per-task scores in one order.

    Raises:
        UserError: nothing to resample.
    """
    difference = np.asarray(new, dtype=np.float64) - np.asarray(old, dtype=np.float64)
    if not len(difference):
        raise UserError("paired scores must not be empty: got 0 tasks - evaluate at least one task under both models")
    rng = np.random.default_rng(seed)
    means = np.array([difference[rng.integers(0, len(difference), len(difference))].mean() for _ in range(samples)])
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, Interval]:
    """Mean and its Student-t interval; the interval is infinite below two values.

    Raises:
        UserError: no values.
    """
    if not values:
        raise UserError("values must not be empty: got 0 - a mean needs at least one value")
    data = np.asarray(values, dtype=np.float64)
    mean = float(data.mean())
    if len(data) < 2:
        return mean, (float("-inf"), float("inf"))
    half = student_t(len(data) - 1, confidence) * float(data.std(ddof=1)) / sqrt(len(data))
    return mean, (mean - half, mean + half)


def student_t(freedom: int, confidence: float) -> float:
    """Two-sided Student-t quantile by bisection; with t = sqrt(v) tan(u) the density in u is cos(u)^(v-1)."""
    if freedom > 10_000:
        return _z(confidence)
    nodes, weights = np.polynomial.legendre.leggauss(200)

    def mass(upper: float) -> float:
        angles = (nodes + 1) * upper / 2
        return float((weights * np.cos(angles) ** (freedom - 1)).sum() * upper / 2)

    low, high, whole = 0.0, np.pi / 2, mass(np.pi / 2)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if mass(middle) < confidence * whole else (low, middle)
    return float(sqrt(freedom) * np.tan(low))


def _z(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise UserError(f"confidence must be between 0 and 1: got {confidence} - write 0.95 for 95 %")
    return NormalDist().inv_cdf((1 + confidence) / 2)
