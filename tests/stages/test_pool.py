"""The pool with real workers: the same trajectories as in one process, whoever dies on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from stage_helpers import engine_of

from noria.core.codec import read_json_lines
from noria.core.errors import EngineError
from noria.core.recipe_phases import RlPhase
from noria.core.types import Trajectory
from noria.sources.turns import Turns
from noria.stages.checkpoint import Keeper, Origin
from noria.stages.context import Context
from noria.stages.loop import Phase
from noria.stages.roller import Job, Limits, Roller
from noria.stages.signals import GroupAdvantage
from noria.stages.worker import Pool
from noria.trainers.local import Config, build

LIMITS = Limits(max_turns=4, max_new_tokens=60, max_tokens=320)


@pytest.fixture(scope="module")
def pool(recipe, taught) -> Iterator[Pool]:
    """Two workers that know the ledger alone, which makes them quick to start. The last test breaks them."""
    lean = recipe.model_copy(update={"env": {"ledger": recipe.env["ledger"]}})
    made = Pool(lean, taught.folder)
    try:
        yield made
    finally:
        made.close()


def weights(taught) -> bytes:
    return (taught.folder / "model.safetensors").read_bytes()


def same(found: list[Trajectory], want: list[Trajectory]) -> None:
    for a, b in zip(found, want, strict=True):
        assert a.id == b.id and a.record.ids == b.record.ids and a.outcome == b.outcome and a.turns == b.turns


@pytest.mark.parametrize("max_staleness", [0, 1])
def test_the_loop_keeps_its_bound_on_staleness(pool, recipe, worlds, renderer, taught, tasks, ctx, max_staleness):
    phase = recipe.phase["experts"].model_copy(
        update={
            "steps": 4, "prompts_per_step": 2, "rollouts_per_prompt": 4, "minibatches": 1, "max_refills": 0,
            "lr": 1e-4, "max_staleness": max_staleness,
        }
    )  # fmt: skip
    whole = Context(recipe, ctx.run, 1, taught.folder, worlds, renderer, pool)
    pool.load(weights(taught), 0, 1.0, whole.limits())
    source = Turns({"ledger": tasks["ledger"]}, 3)
    with ctx.run.artifact("phase", resumable=True) as work:
        signal_of = GroupAdvantage(phase, worlds, {})
        keeper = Keeper(work, "phase", Origin("model", "data"))
        Phase(whole, work, phase, build(Config(), taught.folder), signal_of, source, "phase", keeper).run()
    facts = read_json_lines(ctx.run.path / "metrics.jsonl")
    assert [f["step"] for f in facts] == [1, 2, 3, 4]
    assert all(0 <= f["staleness/max"] <= max_staleness for f in facts)
    assert [f["groups"] for f in facts] == [2.0] * 4
    if not max_staleness:
        # Engine and trainer agree on the tokens of the policy that sampled them.
        assert all(f.get("logp_diff/max", 0.0) < 1e-3 for f in facts)
    assert ctx.run.manifest("phase")["counts"]["out"] == {"groups": 8, "steps": 4}


@pytest.mark.slow
def test_two_real_workers_train_as_one_does_and_a_death_loses_nothing(
    pool, recipe, worlds, renderer, taught, tasks, ctx
):
    found = []
    whole = Context(recipe, ctx.run, 1, taught.folder, worlds, renderer, pool)
    for name, actors in (("one", 1), ("two", 2), ("dies", 2)):
        phase = RlPhase(
            signal="group_mean", steps=2, prompts_per_step=4, rollouts_per_prompt=4, minibatches=1, max_refills=0,
            lr=1e-3, max_staleness=0, actors=actors, max_response=60,
        )  # fmt: skip
        pool.load(weights(taught), 0, 1.0, whole.limits())
        trainer = build(Config(), taught.folder)
        signal_of, seen = GroupAdvantage(phase, worlds, {}), []
        group_rows = signal_of.rows

        def rows(group, rollouts, seen=seen, dies=name == "dies", group_rows=group_rows):
            if dies and not seen:
                os.kill(pool.executor.workers[1].process.pid, signal.SIGKILL)
            assert all(t.record.action_tokens <= 60 for t in rollouts)
            seen += [(t.id, t.seed, t.record.ids, t.outcome) for t in rollouts]
            return group_rows(group, rollouts)

        signal_of.rows = rows
        with ctx.run.artifact(name, resumable=True) as work:
            keeper = Keeper(work, name, Origin("model", "data"))
            # One label for all three: seeds of rollouts and of mini-batches derive from it.
            source = Turns({"ledger": tasks["ledger"]}, 3)
            Phase(whole, work, phase, trainer, signal_of, source, "phase", keeper).run()
        found.append((seen, trainer.weights()))
    assert found[0][0] == found[1][0] == found[2][0] and len(found[0][0]) == 32
    assert found[1][1] == found[2][1] == found[0][1]


def test_no_job_is_lost_when_workers_die(pool, tasks, worlds, renderer, taught):
    jobs = [Job(f"{i}/{k}", tasks["ledger"][i], 50 + k) for i in range(6) for k in range(2)]
    roller = Roller(worlds, renderer, engine_of(taught, renderer, 1.0), LIMITS, 8)
    roller.submit(jobs)
    by_id: dict[str, Trajectory] = {}
    while roller.pending:
        by_id |= {t.id: t for t in roller.step()}
    alone = [by_id[job.id] for job in jobs]

    pool.load(weights(taught), 0, 1.0, LIMITS)
    first = pool.executor.workers[0].process.pid
    heard: list[str] = []

    def progress(t: Trajectory) -> None:
        heard.append(t.id)
        if len(heard) == 1:  # in the middle of the run: most is still owed
            os.kill(first, signal.SIGKILL)

    same(pool.run(jobs, progress), alone)
    assert pool.executor.workers[0].process.pid != first
    assert set(heard) == {job.id for job in jobs}

    # A worker that died while nobody listened is replaced as well.
    process = pool.executor.workers[1].process
    process.kill()
    process.join()
    same(pool.run(jobs[:6]), alone[:6])
    assert pool.executor.workers[1].process is not process

    # Where they die more often than the budget of retries allows, the run fails.
    pool.executor.workers[1].process.kill()
    pool.executor.workers[1].process.join()
    pool.retries = 0
    with pytest.raises(EngineError, match="died with exit code -9"):
        pool.run(jobs[:6])
