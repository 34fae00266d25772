"""Validation inside a phase: the current policy on held-out tasks that neither the gate nor training uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from noria.core.errors import UserError
from noria.core.recipe_phases import Sampled, Validation
from noria.core.types import Task, Trajectory
from noria.signals.base import VALIDATED
from noria.stages.actor import APART
from noria.stages.context import Context, derive
from noria.stages.hooks import validation_of
from noria.stages.roller import Job


@dataclass(frozen=True)
class Validator:
    """Plays the same tasks with the same seeds each time, so that two measures differ by the policy alone."""

    table: Validation
    tasks: Mapping[str, Sequence[Task]]
    seed: int

    def due(self, step: int) -> bool:
        """Whether step `step`, counted from 0, begins with a validation."""
        return step % self.table.every == 0

    def jobs(self) -> list[Job]:
        """The rollouts of one validation."""
        tasks = [task for found in self.tasks.values() for task in found]
        return [
            Job(f"{APART}{i}/{k}", task, derive(self.seed, task.id, k))
            for i, task in enumerate(tasks)
            for k in range(self.table.rollouts)
        ]

    def measure(self, ask: Callable[[Sequence[Job]], list[Trajectory]]) -> dict[str, float]:
        """Share solved of the rollouts with a known outcome, over all worlds and in each; none is reported of nothing.

        `validation/solved` is the mean over worlds, so that a world with many unknown outcomes weighs no less.
        """
        found = ask(self.jobs())
        facts: dict[str, float] = {}
        for world in self.tasks:
            known = [t.solved for t in found if t.task.world == world and t.outcome.known]
            if known:
                facts[f"{VALIDATED}/{world}"] = sum(known) / len(known)
        if facts:
            facts[VALIDATED] = sum(facts.values()) / len(facts)
        return facts | {"validation/unknown_frac": sum(not t.outcome.known for t in found) / len(found)}


def validator_of(ctx: Context, phase: Sampled, worlds: Sequence[str]) -> Validator | None:
    """What validates a phase on its worlds; None where nothing asks for it.

    Raises:
        UserError: a world has no held-out tasks besides the gate's.
    """
    table = validation_of(phase)
    if table is None:
        return None
    seed = derive(ctx.recipe.seed, "validation")
    return Validator(table, {world: _tasks(ctx, world, table.tasks, seed) for world in worlds}, seed)


def _tasks(ctx: Context, world: str, n: int, seed: int) -> list[Task]:
    """`n` held-out tasks of a world, the same in every round, none of which the gate has."""
    judged = {task.id for task in ctx.heldout_tasks(world, "heldout", ctx.recipe.gate.tasks)}
    drawn = ctx.draw(world, "heldout", n + len(judged), derive(seed, world) % (1 << 31))
    left = [task for task in drawn if task.id not in judged][:n]
    if not left:
        raise UserError(
            f"validation.tasks must leave held-out tasks of {world} besides the gate's {len(judged)}: there are none "
            "- lower gate.tasks"
        )
    return left
