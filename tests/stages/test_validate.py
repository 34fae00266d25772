"""A phase that validates: on which tasks, under which weights, and that a continued phase is the undisturbed one."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from actor_helpers import ScriptedExecutor, ScriptedPool, numbered
from stage_helpers import rolled

from noria.core import registry
from noria.core.errors import UserError
from noria.core.recipe_phases import RlPhase, Validation
from noria.stages.checkpoint import Keeper, Origin
from noria.stages.hooks import source_of, validation_of
from noria.stages.loop import Phase
from noria.stages.signals import GroupAdvantage
from noria.stages.validate import Validator, validator_of
from noria.trainers.local import Config, LocalTrainer

STAGED = {"two_stage": {"threshold": 0.5}}


def test_tasks_are_held_out_and_none_of_the_gates(ctx, worlds) -> None:
    phase = RlPhase(signal="group_mean", validation={"tasks": 5, "rollouts": 2})
    made = validator_of(ctx, phase, ["ledger", "arithmetic"])
    assert made is not None and [len(found) for found in made.tasks.values()] == [5, 5]
    for world, found in made.tasks.items():
        ids = {task.id for task in found}
        assert {task.split for task in found} == {"heldout"} and len(ids) == 5
        assert not ids & {task.id for task in ctx.heldout_tasks(world, "heldout", ctx.recipe.gate.tasks)}
        assert not ids & {task.id for task in ctx.train_tasks()[world]}
    again = validator_of(replace(ctx, round=2), phase, ["ledger", "arithmetic"])
    assert again is not None and again.jobs() == made.jobs()
    jobs = made.jobs()
    assert len({job.id for job in jobs}) == len({job.seed for job in jobs}) == len(jobs) == 20
    assert [step for step in range(31) if made.due(step)] == [0, 10, 20, 30]


def test_only_a_phase_that_asks_or_a_signal_that_needs_it_validates(ctx) -> None:
    assert validation_of(RlPhase(signal="group_mean")) is None
    assert validator_of(ctx, RlPhase(signal="group_mean"), ["ledger"]) is None
    assert validation_of(RlPhase(signal="group_mean", use=STAGED)) == Validation()
    assert validation_of(RlPhase(signal="group_mean", use={"two_stage": {"measure": "training"}})) is None
    table = {"every": 3, "tasks": 2}
    assert validation_of(RlPhase(signal="group_mean", use=STAGED, validation=table)) == Validation(every=3, tasks=2)


def test_a_world_without_further_tasks_is_refused(ctx, worlds) -> None:
    class Small:
        def tasks(self, split: str, n: int, seed: int) -> list[Any]:
            return worlds["ledger"].tasks(split, min(n, 6), 1)

    small = replace(ctx, worlds={**worlds, "ledger": Small()})
    with pytest.raises(UserError, match="validation.tasks must leave held-out tasks of ledger besides the gate's 6"):
        validator_of(small, RlPhase(signal="group_mean", validation={}), ["ledger"])


def test_the_measure_is_a_mean_over_worlds_of_known_outcomes() -> None:
    tasks = {world: [replace(task, world=world) for task in numbered(3)] for world in ("a", "b", "c")}
    validator = Validator(Validation(tasks=3), tasks, 0)
    rewards = {"a": [1.0, 0.0, None], "b": [1.0, 1.0, 0.99], "c": [None, None, None]}
    played = iter([r for world in tasks for r in rewards[world]])
    facts = validator.measure(lambda jobs: [rolled(next(played), task=job.task) for job in jobs])
    assert facts == pytest.approx(
        {
            "validation/solved/a": 1 / 2, "validation/solved/b": 2 / 3, "validation/solved": (1 / 2 + 2 / 3) / 2,
            "validation/unknown_frac": 4 / 9,
        }
    )  # fmt: skip
    nothing = validator.measure(lambda jobs: [rolled(None, task=job.task) for job in jobs])
    assert nothing == {"validation/unknown_frac": 1.0}


class Killed(Exception):
    """Stands for a process that died."""


def run(
    ctx: Any, worlds: Any, model: Any, name: str, die: Any = None, order: str = "turns"
) -> tuple[bytes, list[dict[str, Any]], Any]:
    """Weights, metrics and the curriculum after a phase over scripted rollouts; validation passes from version 2 on.

    `die` is a group, or a version that is validated, at which the process dies once; then the phase is continued.
    """
    left = [die]

    def at(moment: tuple[str, int]) -> None:
        if left[0] == moment:
            left[0] = None
            raise Killed

    def rewards(group: int) -> tuple[float, float]:
        at(("group", group))
        return ((1.0, 0.0), (0.0, 1.0))[group % 2]

    def validates(version: int) -> float:
        at(("version", version))
        return float(version >= 2)

    phase = RlPhase(
        signal="group_mean", rollouts_per_prompt=2, minibatches=1, lr=1e-3, steps=5, prompts_per_step=2,
        max_staleness=0, use={"two_stage": {"parts": ["share"]}}, validation={"every": 2, "tasks": 3},
        task_source=order, difficulty={},
    )  # fmt: skip
    while True:
        trainer = LocalTrainer(Config(line_tokens=64), copy.deepcopy(model))
        executor = ScriptedExecutor(lambda g: 1.0 + g % 3, rewards, size=2, validates=validates)
        whole: Any = replace(ctx, pool=ScriptedPool(executor))
        signal = GroupAdvantage(phase, worlds, {})
        assert phase.validation is not None
        validator = Validator(phase.validation, {"ledger": numbered(3)}, 5)
        source = source_of(phase, {"ledger": numbered(8)}, 0, ctx.run.path / "rates.json")
        try:
            with ctx.run.artifact(name, resumable=True) as work:
                keeper = Keeper(work, name, Origin("m", "d"))
                Phase(whole, work, phase, trainer, signal, source, name, keeper, validator).run()
        except Killed:
            continue
        lines = (ctx.run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [row for row in map(json.loads, lines) if row.get("phase") == name]
        plain = [
            {k: v for k, v in row.items() if k not in ("t", "phase") and not k.startswith("time/")} for row in rows
        ]
        return trainer.weights(), plain, signal.hooks.by_name["two_stage"]


@pytest.mark.parametrize("order", registry.names("sources"))
@pytest.mark.parametrize("die", [("group", 3), ("version", 2), ("group", 8)])
def test_every_source_goes_on_where_it_was(ctx, worlds, random_model, order: str, die: tuple[str, int]) -> None:
    """Through the loop itself: the same tasks in the same groups, over the end of an epoch, and the same weights."""
    rates = {task.id: (1 + i) / 9 for i, task in enumerate(numbered(8))}
    (ctx.run.path / "rates.json").write_text(json.dumps(rates), encoding="utf-8")
    whole, again = (
        run(ctx, worlds, random_model, f"{order}{i}", moment, order) for i, moment in enumerate((None, die))
    )
    played = [json.loads((ctx.run.folder(f"{order}{i}") / "groups.json").read_text()) for i in (0, 1)]
    assert played[0] == played[1] and [group for group, _ in played[0]] == list(range(10))
    assert {task for _, task in played[0][:8]} == set(rates)
    assert again[0] == whole[0] and again[1] == whole[1]


def test_a_validation_sees_the_weights_of_its_step_and_flips_the_latch(ctx, worlds, random_model) -> None:
    _, rows, staged = run(ctx, worlds, random_model, "whole")
    assert [row.get("validation/solved") for row in rows] == [0.0, None, 1.0, None, 1.0]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5] and staged.latched


@pytest.mark.parametrize("die", [("version", 0), ("version", 2), ("group", 5), ("version", 4), ("group", 9)])
def test_a_phase_that_died_ends_as_the_undisturbed_one(ctx, worlds, random_model, die: tuple[str, int]) -> None:
    """Before, in and after the validation that flips the latch: the same weights, metrics and latch."""
    whole, again = (run(ctx, worlds, random_model, f"p{i}", moment) for i, moment in enumerate((None, die)))
    assert again[0] == whole[0] and again[1] == whole[1]
    assert again[2].state() == whole[2].state() == {"latched": True, "recent": []}
