"""Majority votes: maj@k, the chance that the answer most often given by k rollouts is right. Exact, no sampling."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from noria.core.errors import UserError
from noria.core.stats import PassAtK

#: A rollout's answer (None: it gave none) and whether the verifier took it.
Vote = tuple[str | None, bool]


def maj_at_k(votes: Sequence[Vote], k: int) -> float:
    """Expected correctness of the majority of k of the n rollouts, drawn without replacement.

    The winner is drawn among the answers with most votes. A rollout without an answer votes for none; where nobody
    votes there is no right answer. What one answer is worth is the share of its rollouts that the verifier took.

    Raises:
        UserError: k > n (more rollouts asked about than were made).
    """
    n = len(votes)
    if not 1 <= k <= n:
        raise UserError(f"k must be between 1 and n: got k = {k}, n = {n} - sample at least k rollouts per task")
    given: dict[str, list[bool]] = {}
    for answer, right in votes:
        if answer is not None:
            given.setdefault(answer, []).append(right)
    silent = n - sum(map(len, given.values()))
    total = 0.0
    for answer, flags in given.items():
        others = [len(found) for other, found in given.items() if other != answer]
        wins = sum(comb(len(flags), j) * _led(others, silent, j, k) for j in range(1, min(len(flags), k) + 1))
        total += sum(flags) / len(flags) * wins
    return total / comb(n, k)


def _led(others: Sequence[int], silent: int, most: int, k: int) -> float:
    """Ways to draw the k - `most` other rollouts such that no other answer has more than `most` votes, each divided by
    the number of answers that have as many."""
    ways = {(0, 0): 1}  # (rollouts drawn, other answers with `most` votes) -> ways
    for count in others:
        further: dict[tuple[int, int], int] = {}
        for (drawn, ties), so_far in ways.items():
            for i in range(min(count, most, k - most - drawn) + 1):
                key = drawn + i, ties + (i == most)
                further[key] = further.get(key, 0) + so_far * comb(count, i)
        ways = further
    return sum(so_far * comb(silent, k - most - drawn) / (1 + ties) for (drawn, ties), so_far in ways.items())


def mean_maj_at_k(tasks: Sequence[Sequence[Vote | None]], k: int) -> PassAtK:
    """maj@k averaged over tasks; each task is its rollouts' votes, None where the outcome is unknown.

    Raises:
        UserError: k exceeds the rollouts of every task.
    """
    if not tasks or max(len(task) for task in tasks) < k:
        most = max((len(task) for task in tasks), default=0)
        raise UserError(f"k must be at most the rollouts per task: got k = {k}, n = {most} - lower k or sample more")
    known = [[vote for vote in task if vote is not None] for task in tasks]
    scored = [maj_at_k(task, k) for task in known if len(task) >= k]
    rollouts = sum(map(len, known))
    return PassAtK(
        value=float(np.mean(scored)) if scored else 0.0,
        k=k,
        tasks=len(scored),
        rollouts=rollouts,
        unknown=sum(map(len, tasks)) - rollouts,
        short=len(tasks) - len(scored),
    )
