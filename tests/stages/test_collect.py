"""How the loop collects groups: in the order of admission, refilled up to a cap, whatever ends first."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from actor_helpers import ScriptedContext, ScriptedExecutor, ScriptedPool, numbered

from noria.core.recipe_phases import RlPhase
from noria.sources.turns import Turns
from noria.stages.actor import Actor
from noria.stages.loop import Phase
from noria.stages.signals import GroupAdvantage

SOLVED, FAILED, MIXED = (1.0, 1.0), (0.0, 0.0), (1.0, 0.0)


def scripted(executor: ScriptedExecutor, worlds: Any, **fields: Any) -> tuple[Phase, Actor]:
    """A phase that only collects, and its actor with the weights of version 0."""
    phase = RlPhase(signal="group_mean", rollouts_per_prompt=2, minibatches=1, **fields)
    source = Turns({"ledger": numbered(64)}, 0)
    ctx: Any = ScriptedContext(ScriptedPool(executor))
    actor = Actor(ctx, source, 2, 7)
    actor.load(b"", 0, 1.0)
    signal = GroupAdvantage(phase, worlds, {})
    return Phase(ctx, None, phase, None, signal, source, "phase", None), actor  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rewards", "wanted", "refills", "groups", "useful", "capped"),
    [
        ([MIXED] * 9, 3, 1, 3, [0, 1, 2], 0.0),
        ([SOLVED, MIXED, FAILED, MIXED, MIXED, MIXED], 3, 1, 5, [1, 3, 4], 0.0),  # replaced one by one, no further
        ([SOLVED, MIXED, FAILED, FAILED, SOLVED, MIXED, MIXED], 3, 1, 6, [1, 5], 1.0),  # the cap: trained as it is
        ([SOLVED, MIXED, FAILED, MIXED], 3, 0, 3, [1], 0.0),  # no refill was asked for: nothing is capped
        ([(None, 1.0), FAILED, (None, None), SOLVED], 2, 1, 4, [], 1.0),  # unknown is no signal either
        ([FAILED] * 8 + [MIXED], 3, 2, 9, [8], 1.0),
        ([FAILED] * 6 + [MIXED] * 3, 3, 2, 9, [6, 7, 8], 0.0),  # full with the last one that may be drawn
    ],
)
def test_groups_without_signal_are_replaced_up_to_the_cap(
    rewards: list[Any], wanted: int, refills: int, groups: int, useful: list[int], capped: float, worlds: Any
) -> None:
    executor = ScriptedExecutor(lambda g: 1.0, lambda g: rewards[g] if g < len(rewards) else FAILED)
    phase, actor = scripted(executor, worlds, prompts_per_step=wanted, max_refills=refills, max_staleness=0)
    rows, taken, facts = phase._collect(actor, 0, wanted)
    assert taken == list(range(groups)) and facts["groups"] == groups
    assert sorted({row.group for row in rows}) == useful and len(rows) == 2 * len(useful)
    assert facts["refill/capped"] == capped
    assert facts["reward/frac_zero_std"] == pytest.approx(1 - len(useful) / groups)
    # Nothing is drawn beyond what the step consumes when the phase is synchronous.
    assert actor.admitted == max(groups, wanted) and not actor.owed


def test_slow_groups_are_trained_as_often_as_they_are_sampled(worlds: Any) -> None:
    """Durations of trained groups are those of sampled ones, though the fast ones end first."""
    lasts = np.random.default_rng(0).lognormal(0.0, 1.0, 4096)
    executor = ScriptedExecutor(lambda g: float(lasts[g]), lambda g: MIXED, slots=32)
    phase, actor = scripted(executor, worlds, prompts_per_step=8, max_refills=0, max_staleness=3)
    trained: list[int] = []
    ages: list[float] = []
    for step in range(64):
        _, groups, facts = phase._collect(actor, len(trained), 4 * 8)
        trained += groups
        ages.append(facts["staleness/max"])
        actor.admit(len(trained) + 3 * 8)
        actor.load(b"", step + 1, 1.0)
    sampled = np.sort(lasts[: len(trained)])
    assert trained == list(range(64 * 8))
    assert np.sort(lasts[trained]).tolist() == sampled.tolist()
    # Discarding what is slow would train on 0.53 where 1.64 is sampled (20,000 of these durations, V16).
    many = np.random.default_rng(0).lognormal(0.0, 1.0, 20_000)
    assert [round(many.mean(), 2), round(many[many <= 1].mean(), 2)] == [1.64, 0.53]
    assert lasts[trained].mean() > 2 * sampled[sampled <= 1].mean()
    assert max(ages) == 3.0  # slow rollouts are late, and within the bound
    # The script is a hard one: groups end out of order, and whoever took the first to end would train the fast half.
    ended = [g for g in dict.fromkeys(executor.ended) if g < len(trained)]
    assert sum(a > b for a, b in pairwise(ended)) > len(trained) // 4
    assert lasts[ended[:256]].mean() < lasts[:256].mean()
    # What was admitted and not yet trained is waiting or in flight: nothing was thrown away.
    assert set(range(len(trained), actor.admitted)) == set(actor.finished) | {
        int(id.removeprefix("g").split("/")[0]) for id in actor.owed
    }
