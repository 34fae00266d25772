"""A rollout's states as the verifier sees them, and what a reward per turn makes of them in the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from stage_helpers import rolled

from noria.core.recipe_phases import RlPhase
from noria.core.types import Outcome, Trajectory
from noria.stages.progress import states_of
from noria.stages.roller import Job
from noria.stages.signals import GroupAdvantage


@pytest.fixture(scope="module")
def rollout(scripted: Any, tasks: Any) -> Trajectory:
    """An episode of the ledger with several messages."""
    played = (scripted.play(Job(f"g0/{i}", task, 0, "careful")) for i, task in enumerate(tasks["ledger"]))
    return max(played, key=lambda t: len(t.turns))


def test_states_are_those_of_the_world_played_by_hand(rollout: Trajectory, worlds: Any) -> None:
    states = states_of(worlds["ledger"], rollout)
    assert len(states) == len(rollout.turns) + 1 >= 3 and states[-1] == rollout.outcome
    episode = worlds["ledger"].open(rollout.task)
    for turn, state in zip(rollout.turns, states[:-1], strict=True):
        assert state == episode.grade()
        episode.act(turn.message)
    assert states[0].reward == 0.0 and states[-1].reward == 1.0


def test_what_cannot_be_replayed_is_not_measured(rollout: Trajectory, worlds: Any) -> None:
    ledger = worlds["ledger"]
    assert states_of(ledger, rollout.with_outcome(Outcome.unknown("lost"))) == ()
    first = replace(rollout.turns[0], observation="something else")
    assert states_of(ledger, replace(rollout, turns=(first, *rollout.turns[1:]))) == ()
    assert states_of(ledger, replace(rollout, turns=())) == ()

    class Broken:
        def open(self, task: Any) -> Any:
            raise OSError("no space")

    assert states_of(Broken(), rollout) == ()  # type: ignore[arg-type]
    # A message that the token limit cut is not acted again: the end is the rollout's own outcome.
    cut = replace(rollout, turns=(*rollout.turns[:-1], replace(rollout.turns[-1], message="<call")), stop="token_limit")
    assert states_of(ledger, cut.with_outcome(Outcome(0.0)))[-1] == Outcome(0.0)


def sampled(t: Trajectory, name: str, n: int) -> Trajectory:
    """The first n turns as if the student had sampled them."""
    made = rolled(0.0, [turn.message for turn in t.turns[:n]], task=t.task, name=name)
    said = zip(made.turns, t.turns, strict=False)
    turns = [replace(mine, message=own.message, observation=own.observation) for mine, own in said]
    return replace(made, turns=tuple(turns))


@pytest.mark.parametrize("terminal", ["zero", "progress"])
def test_rows_carry_the_return_of_each_turn(rollout: Trajectory, worlds: Any, terminal: str) -> None:
    phase = RlPhase(signal="group_mean", use={"pprs": {"terminal": terminal}})
    signal = GroupAdvantage(phase, worlds, {})
    rollout = sampled(rollout, "g0/a", len(rollout.turns)).with_outcome(rollout.outcome)
    short = sampled(rollout, "g0/b", 1).with_outcome(Outcome(0.0, {"named": 0.0, "others": 1.0}))
    pair = [rollout, short]
    phi = [[sum(s.parts.values()) / 2 for s in states_of(worlds["ledger"], t)] for t in pair]
    if terminal == "zero":
        for line in phi:
            line[-1] = 0.0
    whole = [t.outcome.reward + line[-1] - line[0] for t, line in zip(pair, phi, strict=True)]
    rows = signal.rows(0, pair)
    assert len(rows) == 2
    for t, line, row in zip(pair, phi, rows, strict=True):
        for k, turn in enumerate(t.turns):
            expected = t.outcome.reward + line[-1] - line[k] - np.mean(whole)
            assert row.advantage[turn.token_start : turn.token_end] == pytest.approx(expected)
    # Both fail alike: under "progress" the group still has signal where their progress differs.
    alike = [rollout.with_outcome(Outcome(0.0, {"named": 1.0, "others": 0.0})), replace(short, outcome=Outcome(0.0))]
    assert bool(signal.rows(0, alike)) or terminal == "zero"
    plain = GroupAdvantage(RlPhase(signal="group_mean"), worlds, {})
    assert plain.rows(0, alike) == []
