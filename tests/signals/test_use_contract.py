"""What all files of a slot must hold; a new file in the folder is covered without being named here."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from slot_contracts import GROUP, REWARDS, id_of, make, tokens, variants

from noria.core import registry
from noria.core.phase_checks import SLOTS
from noria.core.types import Outcome
from noria.signals.base import VALIDATED, Begin, Observes, PerTurn, Reports, Stateful


def every(slot: str) -> Any:
    return pytest.mark.parametrize(("name", "options"), variants(slot), ids=id_of)


#: Facts of steps, as the loop tells them: some with a validation, some without.
FACTS: list[dict[str, float]] = [
    {"reward/mean": step / 9, "entropy": 3.0 - step, **({VALIDATED: step / 9} if step % 2 else {})} for step in range(9)
]


def continued(name: str, options: dict[str, Any], built: Any) -> Any:
    """The signal as a continued phase has it: built anew, and restored where it keeps a state of plain data."""
    again = make(name, **options)
    if isinstance(built, Stateful):
        again.restore(copy.deepcopy(built.state()))
    return again


def test_every_slot_has_a_file_and_every_file_a_slot() -> None:
    slots = {registry.constant("signals", name, "SLOT") for name in registry.names("signals")}
    assert slots == {*SLOTS, "advantage", "token_advantage"}


@every("controller")
def test_controllers_give_a_coefficient_that_a_continued_run_finds_again(name: str, options: dict[str, Any]) -> None:
    built = make(name, **options)
    assert built.target == options.get("target", built.target)
    seen = [dict(facts) for facts in FACTS]
    for step, facts in enumerate(seen):
        value = built.value(step, 9, 0.7)
        assert np.isfinite(value) and value >= 0
        assert built.value(step, 9, 0.7) == value  # asking changes nothing
        assert continued(name, options, built).value(step, 9, 0.7) == value
        built.observe(facts)
    assert seen == FACTS
    before = built.value(3, 9, 0.7)
    built.observe({})
    assert built.value(3, 9, 0.7) == before


@every("reward")
def test_an_unknown_reward_stays_unknown_and_moves_no_other(name: str, options: dict[str, Any]) -> None:
    with_unknown = make(name, **options).shape(REWARDS, GROUP)
    assert with_unknown[1] is None and len(with_unknown) == 4
    assert all(reward is None or np.isfinite(reward) for reward in with_unknown)
    known = [i for i, reward in enumerate(REWARDS) if reward is not None]
    without = make(name, **options).shape([REWARDS[i] for i in known], [GROUP[i] for i in known])
    assert [with_unknown[i] for i in known] == without


@every("reward")
def test_rewards_do_not_depend_on_the_order_in_the_group(name: str, options: dict[str, Any]) -> None:
    order = [2, 0, 3, 1]
    straight = make(name, **options).shape(REWARDS, GROUP)
    turned = make(name, **options).shape([REWARDS[i] for i in order], [GROUP[i] for i in order])
    assert turned == [straight[i] for i in order]


@every("reward")
def test_rewards_go_on_where_a_run_was_left(name: str, options: dict[str, Any]) -> None:
    built = make(name, **options)
    for facts in FACTS:
        rewards, group = list(REWARDS), list(GROUP)
        assert continued(name, options, built).shape(rewards, group) == built.shape(rewards, group)
        assert rewards == REWARDS and group == GROUP
        if isinstance(built, Observes):
            built.observe(facts)
    if isinstance(built, Reports):
        assert all(np.isfinite(value) for value in built.report().values()) and built.report() == {}


@every("reward")
def test_what_turns_get_is_finite_and_the_first_has_the_whole_return(name: str, options: dict[str, Any]) -> None:
    built = make(name, **options)
    if not isinstance(built, PerTurn):
        assert registry.constant("signals", name, "PER_TURN") is None
        return
    assert registry.constant("signals", name, "PER_TURN") is True
    for played in GROUP:
        credit = built.turns(played)
        assert credit.shape == (played.turns,) and credit[0] == 0.0 and np.isfinite(credit).all()


@every("transform")
def test_transforms_keep_groups_that_teach_and_end(name: str, options: dict[str, Any]) -> None:
    built, rng = make(name, **options), np.random.default_rng(0)
    for share in (0.0, 0.3, 1.0):
        for wanted in (1, 4):
            teaches: list[bool] = []
            chosen = built(teaches, wanted)
            while chosen.refill:
                assert 1 <= chosen.refill <= wanted and len(teaches) < 1000
                teaches += (rng.random(chosen.refill) < share).tolist()
                before = list(teaches)
                chosen = built(teaches, wanted)
                assert teaches == before and built(teaches, wanted) == chosen  # remembers nothing
                assert sorted((*chosen.kept, *chosen.dropped)) == list(range(len(teaches)))
                assert all(teaches[i] for i in chosen.kept) and list(chosen.kept) == sorted(chosen.kept)


@every("rollout")
def test_rollouts_begin_inside_the_experts_and_end_inside_the_bound(name: str, options: dict[str, Any]) -> None:
    built = make(name, **options)
    assert isinstance(built.needs_expert, bool)
    for step in (0, 1, 5, 40, 10_000):
        for length in (0, 1, 2, 7):
            begin = built.begin(step, length, 9)
            assert isinstance(begin, Begin) and begin == built.begin(step, length, 9)
            # The expert never plays its last message: no replay finishes the task.
            assert 0 <= begin.turns <= max(0, length - 1) and 0 <= begin.max_turns <= 9
            assert built.needs_expert or begin.turns == 0


@every("view")
def test_views_leave_out_only_what_the_student_sampled(name: str, options: dict[str, Any]) -> None:
    built = make(name, **options)
    for seed in range(20):
        seen = tokens(seed)
        keep = built.keep(seen.mask, seen.roles, seed)
        assert keep.tolist() == built.keep(seen.mask, seen.roles, seed).tolist()
        assert keep.tolist() == sorted(set(keep.tolist())) and set(keep.tolist()) <= set(range(12))
        assert set(np.flatnonzero(~seen.mask).tolist()) <= set(keep.tolist())


@every("takeover")
def test_takeovers_begin_at_a_trained_token(name: str, options: dict[str, Any]) -> None:
    built, found = make(name, **options), []
    assert built.max_new_tokens >= 1
    for seed in range(20):
        seen = tokens(seed, gap=3.0)
        k1 = seen.logp_old - seen.logp_mu + seed / 5
        start = built.start(k1, seen.mask)
        found.append(start)
        assert start is None or seen.mask[start]
        assert built.start(np.where(seen.mask, k1, 99.0), seen.mask) == start
        assert built.start(k1, seen.mask & False) is None
    assert any(start is not None for start in found)


@every("rewrite")
def test_rewrites_ask_with_the_answer_and_take_only_what_is_known_to_be_right(
    name: str, options: dict[str, Any]
) -> None:
    built = make(name, **options)
    assert built.per_step >= 1 and built.max_new_tokens >= 1
    assert "the answer so far" in built.ask("the answer so far")
    short, long = [1, 2], [1, 2, 3, 4, 5]
    assert built.accepts(short, long, True, True, Outcome(1.0))
    for outcome in (Outcome(0.0), Outcome(0.5), Outcome.unknown("nobody looked")):
        assert not built.accepts(short, long, True, True, outcome)
    assert not built.accepts(short, long, False, True, Outcome(1.0))


@every("advantage")
def test_advantages_of_nothing_are_zero(name: str, options: dict[str, Any]) -> None:
    built = make(name, **options)
    for rewards in ([], [1.0], [None, None], [0.5, 0.5, None], [None, 1.0]):
        assert built(rewards).tolist() == [0.0] * len(rewards)
    order = [3, 1, 0, 2]
    straight, turned = built([1.0, None, 0.0, 0.25]), built([[1.0, None, 0.0, 0.25][i] for i in order])
    assert turned == pytest.approx(straight[order]) and straight[1] == 0.0
