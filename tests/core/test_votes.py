"""maj@k against every subset, written out."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.errors import UserError
from noria.core.votes import Vote, maj_at_k, mean_maj_at_k


def naive(votes: list[Vote], k: int) -> float:
    """Mean over all subsets of k; among answers with most votes each is as likely to be taken."""
    worth = {
        answer: sum(right for other, right in votes if other == answer) / sum(other == answer for other, _ in votes)
        for answer, _ in votes
    }
    values = []
    for chosen in combinations(votes, k):
        said = [answer for answer, _ in chosen if answer is not None]
        most = max((said.count(answer) for answer in said), default=0)
        leading = sorted({answer for answer in said if said.count(answer) == most})
        values.append(sum(worth[answer] for answer in leading) / len(leading) if leading else 0.0)
    return sum(values) / len(values)


@given(
    st.lists(st.tuples(st.sampled_from(["7", "8", "9", None]), st.booleans()), min_size=1, max_size=7),
    st.integers(1, 7),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_equals_the_enumeration_of_all_subsets(votes: list[Vote], k: int) -> None:
    if k > len(votes):
        with pytest.raises(UserError, match="k must be between 1 and n"):
            maj_at_k(votes, k)
        return
    assert maj_at_k(votes, k) == pytest.approx(naive(votes, k), abs=1e-12)


def test_by_hand() -> None:
    right, wrong, silent = ("7", True), ("8", False), (None, False)
    assert maj_at_k([right, right, wrong], 3) == 1.0
    assert maj_at_k([right, wrong, wrong], 3) == 0.0
    assert maj_at_k([right, wrong], 2) == 0.5  # a tie
    assert maj_at_k([right, silent, silent], 3) == 1.0  # those without an answer do not vote
    assert maj_at_k([silent, silent], 1) == 0.0
    assert maj_at_k([right, right, wrong], 1) == pytest.approx(2 / 3)  # of one rollout it is pass@1
    # Wrong answers that differ do not add up: a third of the rollouts carries the vote.
    assert maj_at_k([right, right, ("1", False), ("2", False), ("3", False), ("4", False)], 6) == 1.0
    assert maj_at_k([right] * 60 + [wrong] * 40, 100) == 1.0
    draws = sum(comb(60, j) * comb(40, 31 - j) for j in range(16, 32)) / comb(100, 31)  # hypergeometric
    assert maj_at_k([right] * 60 + [wrong] * 40, 31) == pytest.approx(draws)


def test_unknown_outcomes_are_left_out_and_counted() -> None:
    right, wrong = ("7", True), ("8", False)
    found = mean_maj_at_k([[right, right, None], [wrong, None, None], [right, wrong, wrong]], 2)
    assert found.value == pytest.approx((1.0 + naive([right, wrong, wrong], 2)) / 2)
    assert (found.k, found.tasks, found.rollouts, found.unknown, found.short) == (2, 2, 6, 3, 1)
    with pytest.raises(UserError, match="lower k or sample more"):
        mean_maj_at_k([[right]], 2)
    assert mean_maj_at_k([[None, None]], 1).value == 0.0
