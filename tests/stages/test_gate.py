"""The gate: a clear gain is promoted, chance is not, and no gain elsewhere pays for a protected world."""

from __future__ import annotations

from typing import Any

import pytest

from noria.stages.gate import compare, decide

Rows = dict[str, dict[str, Any]]


def outcomes(**worlds: list[float | None]) -> Rows:
    return {f"{w}/{i}": {"world": w, "reward": r} for w, rewards in worlds.items() for i, r in enumerate(rewards)}


def solved(n: int, of: int) -> list[float | None]:
    return [1.0] * n + [0.0] * (of - n)


def test_a_clear_gain_is_promoted() -> None:
    verdict = decide(
        outcomes(a=solved(20, 100), b=solved(50, 100)), outcomes(a=solved(45, 100), b=solved(50, 100)), ["a", "b"], 0.95
    )
    assert verdict.promoted
    overall = verdict.evidence["overall"]
    assert (overall["n"], overall["won"], overall["lost"], overall["gain"]) == (200, 25, 0, 0.125)
    assert overall["p_better"] == pytest.approx(0.5**25) and overall["ci"][0] > 0
    assert verdict.evidence["worlds"]["b"]["gain"] == 0.0


def test_equal_models_are_kept() -> None:
    same = outcomes(a=solved(30, 60))
    verdict = decide(same, same, ["a"], 0.95)
    assert not verdict.promoted and "not significantly better" in verdict.reason
    assert verdict.evidence["overall"]["p_better"] == 1.0


def test_a_gain_that_may_be_chance_is_kept() -> None:
    old = outcomes(a=[0.0] * 4 + [1.0] * 6)
    assert not decide(old, outcomes(a=[1.0] * 10), [], 0.95).promoted  # 4 wins: p = 1/16
    assert decide(old, outcomes(a=[1.0] * 10), [], 0.9).promoted
    assert "90%" in decide(old, outcomes(a=[1.0] * 10), [], 0.9).reason.replace(" %", "%")


def test_a_protected_world_must_not_get_worse() -> None:
    old = outcomes(a=solved(10, 100), b=solved(60, 100))
    new = outcomes(a=solved(60, 100), b=solved(45, 100))
    verdict = decide(old, new, ["a", "b"], 0.95)
    assert not verdict.promoted and "worse in protected b" in verdict.reason
    assert verdict.evidence["worlds"]["b"]["protected"]
    # The same loss in a world that nobody protects is outweighed.
    assert decide(old, new, ["a"], 0.95).promoted
    assert decide(old, new, [], 0.95).promoted


def test_the_level_is_shared_among_the_protected_worlds() -> None:
    old = outcomes(a=solved(10, 100), b=[1.0] * 5 + [0.0] * 95)
    new = outcomes(a=solved(60, 100), b=[0.0] * 100)
    # Five losses and no win: p = 1/32, below 0.05 and above 0.05 / 2.
    assert not decide(old, new, ["b"], 0.95).promoted
    assert decide(old, new, ["a", "b"], 0.95).promoted


def test_what_is_unknown_under_one_model_is_left_out() -> None:
    old = outcomes(a=[0.0] * 10 + [1.0, None, 0.0, 1.0])
    new = outcomes(a=[1.0] * 10 + [None, 1.0, None, 1.0])
    verdict = decide(old, new, ["a"], 0.95)
    assert verdict.promoted and verdict.evidence["tasks"] == 11 and verdict.evidence["unpaired"] == 3
    assert (verdict.evidence["overall"]["won"], verdict.evidence["overall"]["lost"]) == (10, 0)
    nothing = decide(outcomes(a=[None, 1.0]), outcomes(a=[1.0, None]), ["a"], 0.95)
    assert not nothing.promoted and nothing.evidence == {"tasks": 0}


def test_only_full_marks_count_as_solved() -> None:
    found = compare(outcomes(a=[0.5, 0.9, 1.0]), outcomes(a=[1.0, 0.5, 0.9]), ["a/0", "a/1", "a/2"], 0.95)
    assert (found["won"], found["lost"], found["gain"]) == (1, 1, 0.0)
