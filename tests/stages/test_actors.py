"""Several workers sample for one phase: who does what, what survives, and what the phase says on its way."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from actor_helpers import ScriptedContext, ScriptedExecutor, ScriptedPool, numbered

from noria.core.errors import EngineError, UserError
from noria.core.recipe_phases import RlPhase
from noria.sources.turns import Turns
from noria.stages.actor import Actor, place, workers_for
from noria.stages.checkpoint import Keeper, Origin
from noria.stages.loop import Phase
from noria.stages.signals import GroupAdvantage
from noria.stages.worker import Load
from noria.trainers.local import BadStep, Config, LocalTrainer

MIXED = (1.0, 0.0)


def executor_of(size: int, rewards: Callable[[int], Any] = lambda g: MIXED) -> ScriptedExecutor:
    return ScriptedExecutor(lambda g: 1.0 + g % 3, rewards, slots=4, size=size)


def actor_of(executor: ScriptedExecutor) -> Actor:
    ctx: Any = ScriptedContext(ScriptedPool(executor))
    actor = Actor(ctx, Turns({"ledger": numbered(16)}, 0), 2, 7, executor.size)
    actor.load(b"w", 0, 1.0)
    return actor


def sent(executor: ScriptedExecutor, worker: int) -> list[str]:
    return [job.id for to, message in executor.log if to == worker and isinstance(message, list) for job in message]


def test_groups_are_dealt_by_number_and_every_worker_has_the_weights() -> None:
    executor = executor_of(3)
    actor = actor_of(executor)
    actor.admit(7)
    taken = [actor.take(group) for group in range(7)]
    actor.load(b"new", 1, 0.5)
    for worker in range(3):
        assert [place(id) for id in sent(executor, worker)] == [(g, k) for g in range(worker, 7, 3) for k in (0, 1)]
        loads = [m for to, m in executor.log if to == worker and isinstance(m, Load)]
        assert [(m.weights, m.version) for m in loads] == [(b"w", 0), (b"new", 1)]
    # The rollouts are the same as those of one worker: task and seed depend on the group alone.
    alone = actor_of(executor_of(1))
    alone.admit(7)
    assert taken == [alone.take(group) for group in range(7)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_what_is_owed_is_dealt_anew_to_however_many_workers_there_are(size: int) -> None:
    first = actor_of(executor_of(3))
    first.admit(6)
    taken = [first.take(0)]
    state = first.state()
    executor = executor_of(size)
    again = actor_of(executor)
    again.restore(state)
    assert sorted(id for w in range(size) for id in sent(executor, w)) == sorted(first.owed)
    assert all(place(id)[0] % size == w for w in range(size) for id in sent(executor, w))
    taken += [again.take(group) for group in range(1, 6)]
    whole = actor_of(executor_of(1))
    whole.admit(6)
    assert taken == [whole.take(group) for group in range(6)]


def test_each_worker_may_die_as_often_as_the_pool_retries() -> None:
    executor = executor_of(2)
    actor = actor_of(executor)
    for _ in range(2):
        for worker in (0, 1):
            executor.kill(worker)
            actor.listen(worker, 0)
    assert executor.restarts == [0, 1, 0, 1] and actor.deaths == {0: 2, 1: 2}
    executor.kill(1)
    with pytest.raises(EngineError, match="actor 1 died 3 times"):
        actor.listen(1, 0)


def test_how_many_workers_sample() -> None:
    assert [workers_for(None, size) for size in (1, 2, 4)] == [1, 1, 3]
    assert [workers_for(n, 4) for n in (1, 4)] == [1, 4]
    with pytest.raises(UserError, match="got 5 and 4 - set actors = 4"):
        workers_for(5, 4)


def trained(ctx: Any, worlds: Any, model: Any, executor: ScriptedExecutor, name: str, **fields: Any) -> bytes:
    """The weights after a phase over scripted rollouts."""
    phase = RlPhase(signal="group_mean", rollouts_per_prompt=2, minibatches=1, lr=1e-3, **fields)
    trainer = LocalTrainer(Config(line_tokens=64), copy.deepcopy(model))
    source = Turns({"ledger": numbered(16)}, 0)
    whole: Any = replace(ctx, pool=ScriptedPool(executor))
    with ctx.run.artifact(name, resumable=True) as work:
        signal = GroupAdvantage(phase, worlds, {})
        Phase(whole, work, phase, trainer, signal, source, name, Keeper(work, name, Origin("m", "d"))).run()
    return trainer.weights()


def test_two_workers_and_one_that_dies_give_the_weights_of_one(ctx, worlds, random_model) -> None:
    def rewards(g: int) -> Any:
        if kills and g == 2 and not executor.restarts:
            executor.kill(1)  # group 3 is in flight there
        return ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))[g % 3]

    found = []
    for size, kills in ((1, False), (2, False), (2, True)):
        executor = executor_of(size, rewards)
        fields = {"steps": 3, "prompts_per_step": 4, "max_staleness": 0, "max_refills": 1, "actors": size}
        name = f"p{size}{kills}"
        weights = trained(ctx, worlds, random_model, executor, name, **fields)
        groups = (ctx.run.folder(name) / "groups.json").read_text()
        found.append((weights, groups))
        assert executor.restarts == [1] * kills
        assert {to for to, _ in executor.log} == set(range(size))
    assert found[0] == found[1] == found[2]


def test_a_capped_step_says_so(ctx, worlds, random_model) -> None:
    executor = executor_of(1, lambda g: MIXED if g < 3 else (0.0, 0.0))
    trained(ctx, worlds, random_model, executor, "short", steps=2, prompts_per_step=2, max_staleness=0, max_refills=1)
    events = [event for event in ctx.run.events() if event["event"] == "capped"]
    assert [{key: event[key] for key in ("stage", "step", "groups", "wanted")} for event in events] == [
        {"stage": "short", "step": 2, "groups": 4, "wanted": 2}
    ]


@pytest.mark.parametrize("bound", [0.0, 1e6, 1e-3])
def test_a_phase_stops_where_engine_and_trainer_disagree(ctx, worlds, random_model, bound: float) -> None:
    """The script says log mu = -1 of every token, which the model does not."""
    fields = {"steps": 1, "prompts_per_step": 2, "max_staleness": 0, "max_logp_diff": bound}
    if bound != 1e-3:
        assert trained(ctx, worlds, random_model, executor_of(1), "gap", **fields)
        return
    with pytest.raises(BadStep, match=r"gap step 1: mean .* at most max_logp_diff = 0.001: got \d.* the state after"):
        trained(ctx, worlds, random_model, executor_of(1), "gap", **fields)
