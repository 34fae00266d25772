"""Token weights, the teacher's advantage, dynamic sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.signals import dynamic, key_action, role_credit, teacher_k1, tis

MASK = [0, 1, 1, 1, 0, 1, 0]


def test_key_actions_weigh_kappa_with_mean_one() -> None:
    got = key_action.build(key_action.Config(kappa=3.0))(MASK, [(2, 5)])
    assert got.tolist() == pytest.approx([0, 0.5, 1.5, 1.5, 0, 0.5, 0])
    assert got[np.array(MASK, dtype=bool)].mean() == pytest.approx(1.0)


@pytest.mark.parametrize("spans", [[], [(0, 7)], [(4, 5)], [(3, 3)], [(1, 6), (2, 4)]])
def test_no_span_all_span_and_empty_spans_change_nothing(spans: list[tuple[int, int]]) -> None:
    got = key_action.build(key_action.Config())(MASK, spans)
    assert got.tolist() == [float(m) for m in MASK]


def test_kappa_one_is_off_and_overlap_counts_once() -> None:
    assert key_action.build(key_action.Config(kappa=1.0))(MASK, [(1, 2)]).tolist() == [float(m) for m in MASK]
    built = key_action.build(key_action.Config())
    assert built(MASK, [(1, 3), (2, 3)]).tolist() == built(MASK, [(1, 3)]).tolist()


@pytest.mark.parametrize("span", [(-1, 2), (3, 2), (0, 8)])
def test_a_span_outside_the_rollout_is_refused(span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="span must lie in"):
        key_action.build(key_action.Config())(MASK, [span])


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_key_action_weights_keep_the_rollouts_total(mask: list[bool], data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(mask)))
    start = data.draw(st.integers(0, end))
    got = key_action.build(key_action.Config(kappa=2.5))([int(m) for m in mask], [(start, end)])
    assert got.sum() == pytest.approx(sum(mask))
    assert (got[~np.array(mask)] == 0).all() and np.isfinite(got).all()


def test_role_credit_by_role_with_mean_one() -> None:
    config = role_credit.Config(reasoning=1, tool_selection=2, tool_arguments=3, final_answer=0)
    roles = ["system", "think", "tool_name", "tool_args", "observation", "answer", "glue"]
    got = role_credit.build(config)(MASK, roles)
    assert got.tolist() == pytest.approx([0, 4 / 6, 8 / 6, 12 / 6, 0, 0, 0])
    assert role_credit.build(role_credit.Config())(MASK, roles).tolist() == [float(m) for m in MASK]


def test_role_credit_of_nothing_stays_nothing() -> None:
    config = role_credit.Config(final_answer=0)
    assert role_credit.build(config)([1, 1], ["answer", "answer"]).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="zip"):
        role_credit.build(config)([1, 1], ["answer"])


def test_tis_truncates_the_ratio_of_old_to_behaviour() -> None:
    got = tis.build(tis.Config())([math.log(0.5), math.log(0.5), -1.0], [math.log(0.1), math.log(0.4), -1.0])
    assert got.tolist() == pytest.approx([2.0, 1.25, 1.0])


def test_tis_is_finite_at_extreme_ratios_and_one_without_a_gap() -> None:
    built = tis.build(tis.Config(cap=3.0))
    assert built([0.0, -1e6], [-1e6, 0.0]).tolist() == pytest.approx([3.0, 0.0])
    assert built([-0.1, -7.0], [-0.1, -7.0]).tolist() == [1.0, 1.0]


def test_tis_is_unbiased_where_it_does_not_truncate() -> None:
    """E_mu[min(old/mu, C) f] = E_old[f] by enumeration when no ratio exceeds C."""
    old, mu, f = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4]), np.array([1.0, -2.0, 4.0])
    weight = tis.build(tis.Config())(np.log(old), np.log(mu))
    assert (mu * weight * f).sum() == pytest.approx((old * f).sum())


def test_teacher_k1_is_the_negative_log_ratio_and_zero_for_the_same_model() -> None:
    built = teacher_k1.build(teacher_k1.Config())
    assert built.config.adv_ref == "current"
    assert built([-1.0, -2.0], [-1.5, -0.5]).tolist() == [0.5, -1.5]
    assert built([-1.3, -0.2], [-1.3, -0.2]).tolist() == [0.0, 0.0]


def test_monitors_by_enumeration() -> None:
    """Under the student's own samples the mean of k1 and of k3 is the KL, that of |k1| is not."""
    p, q = np.array([0.6, 0.2, 0.1, 0.1]), np.array([0.7, 0.25, 0.03, 0.02])
    repeat = (p * 10).round().astype(int)
    k1 = np.log(p / q).repeat(repeat)
    got = teacher_k1.monitors(k1, [1] * len(k1))
    kl = float((p * np.log(p / q)).sum())
    assert got["k1"] == pytest.approx(kl) and got["k3"] == pytest.approx(kl)
    assert got["abs"] == pytest.approx(float((p * np.abs(np.log(p / q))).sum()))
    assert got["abs"] > 2 * kl
    assert teacher_k1.monitors(k1, [0] * len(k1)) == {"abs": 0.0, "k1": 0.0, "k3": 0.0}
    assert math.isfinite(teacher_k1.monitors(np.array([-1e5]), [1])["k3"])


def test_dynamic_keeps_groups_that_teach_and_asks_for_a_refill() -> None:
    built = dynamic.build(dynamic.Config(max_refills=1))
    some = [True, False, False, True, False, False]
    first = built(some, wanted=4)
    assert (first.kept, first.dropped) == ((0, 3), (1, 2, 4, 5))
    assert (first.refill, first.capped) == (2, False)
    at_cap = built([*some, False, True], wanted=4)
    assert (at_cap.kept, at_cap.refill, at_cap.capped) == ((0, 3, 7), 0, True)
    full = built(some, wanted=2)
    assert (full.refill, full.capped) == (0, False)
    assert built([], wanted=3).refill == 3


def test_dynamic_samples_no_group_beyond_the_cap_and_without_refills_is_never_capped() -> None:
    for refills in range(4):
        built, drawn = dynamic.build(dynamic.Config(max_refills=refills)), 0
        while left := built([False] * drawn, wanted=3).refill:
            drawn += left
        assert drawn == 3 * (1 + refills)
        assert built([False] * drawn, wanted=3).capped == (refills > 0)
        assert not built([True] * 3, wanted=3).capped
