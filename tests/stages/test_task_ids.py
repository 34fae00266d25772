"""Two tables of [env] of one type: what both draw stays apart in every artifact that goes by a task's id."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stage_helpers import rolled

from noria.core import admission
from noria.core import recipe as recipes
from noria.core.errors import UserError
from noria.core.store import Run
from noria.core.types import Split, Task
from noria.envs import arithmetic
from noria.stages import curate, gate
from noria.stages.context import Context, heldout
from noria.stages.evaluate import heldout_jobs, outcome_row
from noria.stages.hint import world_calls
from noria.stages.pair import make_pairs
from noria.stages.roller import Job, Limits, Roller
from noria.stages.rollout import _jobs
from noria.tokens.renderer import Renderer

RECIPE = """
name = "twins"
teachers = { careful = { type = "scripted", strategy = "careful" } }
gate = { tasks = 5 }
env = { one = { type = "arithmetic", tasks = 4 }, two = { type = "arithmetic", tasks = 4 } }
"""


class OneDraw(arithmetic.ArithmeticWorld):
    """Draws the same tasks whatever the seed: what chance does now and then, it does always."""

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        return super().tasks(split, n, 7)


@pytest.fixture
def twins(renderer: Renderer, tmp_path: Path) -> Context:
    file = tmp_path / "twins.toml"
    file.write_text(RECIPE, encoding="utf-8")
    recipe = recipes.load([file])
    worlds = {name: OneDraw(arithmetic.Config()) for name in recipe.env}
    run = Run.create(tmp_path / "runs", recipe)
    return Context(recipe, run, 1, tmp_path, worlds, renderer, None)  # type: ignore[arg-type]


def drawn(ctx: Context) -> dict[str, list[list[Task]]]:
    """Every way in which tasks enter a run, by world."""
    train = ctx.train_tasks()
    return {
        world: [train[world], ctx.fresh_tasks(world, "experts", 6), ctx.heldout_tasks(world, "heldout", 5)]
        for world in ctx.worlds
    }


def test_worlds_of_one_type_have_no_id_in_common(twins: Context) -> None:
    found = drawn(twins)
    for one, two in zip(found["one"], found["two"], strict=True):
        assert [t.prompt for t in one] == [t.prompt for t in two]  # the same problems, told apart by id alone
        assert {t.world for t in one} == {"one"} and {t.world for t in two} == {"two"}
        assert not {t.id for t in one} & {t.id for t in two}
    everything = [t.id for lists in found.values() for tasks in lists for t in tasks]
    assert len(set(everything)) == len(everything) == 2 * (4 + 6 + 5)


def test_a_world_under_its_own_name_keeps_its_ids(worlds: dict[str, Any]) -> None:
    own = worlds["arithmetic"].tasks("heldout", 5, 3)
    assert {t.id.split("-")[0] for t in heldout(worlds["arithmetic"], "arithmetic", "heldout", 5, 3)} == {"arithmetic"}
    assert [t.id for t in own] == [t.id for t in worlds["arithmetic"].tasks("heldout", 5, 3)]


def test_rollouts_pairs_and_marks_stay_with_their_world(twins: Context) -> None:
    tasks = twins.train_tasks()
    roller = Roller(twins.worlds, twins.renderer, None, Limits(), 1)
    played = []
    for world in tasks:
        for task in tasks[world]:
            jobs = _jobs(twins, task)
            assert len({job.id for job in jobs}) == len(jobs)
            right = roller.play(next(job for job in jobs if job.strategy))
            wrong = roller.play(Job(f"{task.id}/weak/0", task, 0, script=("I can't tell.",)))
            assert right.solved and not wrong.solved
            played += [right, replace(wrong, source="student")]
    assert len({t.id for t in played}) == len(played)
    pairs = make_pairs(played)
    assert [pair.task.world for pair in pairs] == ["one"] * 4 + ["two"] * 4
    assert all(pair.right.task == pair.wrong.task == pair.task for pair in pairs)
    assert set(world_calls(twins, [], pairs)) == {"one", "two"}


def test_the_gate_pairs_each_held_out_rollout_with_itself(twins: Context) -> None:
    tasks = [t for world in twins.worlds for t in twins.heldout_tasks(world, "heldout", 5)]
    jobs = heldout_jobs(tasks, 0, 2)
    roller = Roller(twins.worlds, twins.renderer, None, Limits(), 1)
    rows = [outcome_row(roller.play(replace(job, strategy="careful"))) for job in jobs]
    old = {row["id"]: row | {"reward": 0.0} for row in rows}
    new = {row["id"]: row | {"reward": float(row["world"] == "two")} for row in rows}
    verdict = gate.decide(old, new, ["one", "two"], 0.95)
    assert verdict.evidence["overall"]["n"] == 20
    assert {w: (found["n"], found["won"]) for w, found in verdict.evidence["worlds"].items()} == {
        "one": (10, 0), "two": (10, 10)
    }  # fmt: skip


def test_what_the_other_table_holds_out_is_not_learnt(twins: Context) -> None:
    (held, *_) = twins.heldout_tasks("two", "heldout", 1)
    task = replace(held, world="one", id="one.arithmetic-train-0", split="train")
    script = ["7"]
    trajectory = rolled(1.0, script, task=task)
    left: Counter[str] = Counter()
    assert curate._unlike(twins, [(trajectory, script)], left) == [] and left == {"contaminated": 1}


class FewTasks(arithmetic.ArithmeticWorld):
    """A world of a file: it has seven tasks of a split and gives no more."""

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        return super().tasks(split, 7, 7)[:n]


def test_a_world_with_few_tasks_gives_new_ones_first_and_then_those_of_the_round(twins: Context) -> None:
    twins.worlds["one"] = FewTasks(arithmetic.Config())  # type: ignore[index]
    train = {task.id for task in twins.train_tasks()["one"]}
    fresh = [task.id for task in twins.fresh_tasks("one", "experts", 6)]
    assert len(train) == 4 and len(set(fresh)) == 6
    assert not train & set(fresh[:3]) and set(fresh[3:]) < train
    assert len(twins.fresh_tasks("one", "experts", 50)) == 7


def test_what_a_list_strikes_is_missing_where_a_world_has_few_tasks() -> None:
    world = FewTasks(arithmetic.Config())
    tasks = world.tasks("train", 7, 0)
    struck = frozenset(admission.key_of(task) for task in tasks[:2])
    assert admission.draw(world, "train", 7, 0, struck) == tasks[2:]
    with pytest.raises(UserError, match="must leave tasks"):
        admission.draw(world, "train", 7, 0, frozenset(map(admission.key_of, tasks)))
