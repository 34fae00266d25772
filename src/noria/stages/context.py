"""What every stage is handed: the recipe, the run folder, the worlds and the pool of workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from noria.core import admission
from noria.core.codec import read_jsonl, write_jsonl
from noria.core.errors import EngineError
from noria.core.recipe import Recipe
from noria.core.seeds import derive as derive
from noria.core.store import Artifact, Run
from noria.core.types import Split, Task, Trajectory
from noria.models.weights import read
from noria.stages.learning import Far
from noria.stages.roller import Job, Limits
from noria.stages.scoring import Elsewhere
from noria.stages.worker import Pool, unknown_share
from noria.tokens.renderer import Renderer

TRAJECTORIES = "trajectories.jsonl"


@dataclass(frozen=True)
class Context:
    """One round of one run. `weak` is the folder of the round's weak model."""

    recipe: Recipe
    run: Run
    round: int
    weak: Path
    worlds: Mapping[str, Any]
    renderer: Renderer
    pool: Pool
    #: gives the workers in which teachers score; None = they score beside the learner
    scorers: Callable[[], Elsewhere] | None = None
    #: gives the worker in which the learner trains; None = it trains in this process
    learner: Callable[[], Far] | None = None
    #: keys of the tasks that a list strikes, by world (`core.admission`)
    struck: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def name(self, stage: str) -> str:
        """Name of a stage's artifact."""
        return f"round-{self.round}/{stage}"

    def seed(self, *parts: object) -> int:
        """A seed that depends on the recipe's seed, the round and `parts` alone; 62 bits."""
        return derive(self.recipe.seed, self.round, *parts)

    def train_tasks(self) -> dict[str, list[Task]]:
        """The round's training tasks by world."""
        return {
            name: self.draw(name, "train", self.tasks_per_round(name), self.seed("tasks", name) % (1 << 31))
            for name in self.worlds
        }

    def artifacts(self, *folders: Path) -> list[str]:
        """Names of those checkpoints that this run made; a model from outside has none."""
        return [str(f.relative_to(self.run.path)) for f in folders if f.is_relative_to(self.run.path)]

    def tasks_per_round(self, world: str) -> int:
        """Training tasks that a round draws from a world."""
        return int(self.recipe.env[world].config().tasks)

    def fresh_tasks(self, world: str, phase: str, n: int) -> list[Task]:
        """`n` training tasks of a world for one phase, other than those that the round rolled out.

        A world of a file may not hold so many: those that the round rolled out then come last, and fewer than `n` are
        played again and again.
        """
        seed = self.seed("tasks", world, phase) % (1 << 31)
        used = {task.id for task in self.train_tasks()[world]}
        drawn = self.draw(world, "train", n + len(used), seed)
        return sorted(drawn, key=lambda task: task.id in used)[:n]

    def heldout_tasks(self, world: str, split: Split, n: int) -> list[Task]:
        """Held-out tasks: the same for every model and round of the run."""
        return heldout(self.worlds[world], world, split, n, self.recipe.seed, self.struck.get(world, frozenset()))

    def draw(self, world: str, split: Split, n: int, seed: int) -> list[Task]:
        """`n` tasks of a world that no list strikes."""
        struck = self.struck.get(world, frozenset())
        return named(admission.draw(self.worlds[world], split, n, seed, struck, world), world)

    def limits(self, evaluation: bool = False) -> Limits:
        """Bounds of an episode in rollouts or in evaluation."""
        return Limits.of(self.recipe.rollout, self.recipe.eval if evaluation else None)

    def use(self, model: Path, temperature: float, evaluation: bool = False) -> None:
        """Make the workers sample from this checkpoint."""
        self.pool.load(read(model), 0, temperature, self.limits(evaluation))

    def roll(self, jobs: Sequence[Job], work: Artifact) -> list[Trajectory]:
        """Run jobs, tell the live view, and refuse to go on when infrastructure is ill.

        Raises:
            EngineError: more outcomes are unknown than `rollout.max_unknown` allows.
        """
        counter = Counter(work, len(jobs))
        found = self.pool.run(jobs, counter)
        share = unknown_share(found)
        if share > self.recipe.rollout.max_unknown:
            reason = next((t.outcome.reason for t in found if not t.outcome.known), "")
            raise EngineError(
                f"{share:.0%} of outcomes are unknown, more than rollout.max_unknown = "
                f"{self.recipe.rollout.max_unknown}; the first reason: {reason}"
            )
        return found


class Counter:
    """Counts rollouts for the live view."""

    def __init__(self, work: Artifact, total: int) -> None:
        self.work, self.total, self.done, self.solved = work, total, 0, 0

    def __call__(self, trajectory: Trajectory) -> None:
        self.done += 1
        self.solved += trajectory.solved
        self.work.progress(self.done, self.total, solved=self.solved)


def named(tasks: Sequence[Task], world: str) -> list[Task]:
    """Tasks that carry the recipe's name of their world, in their ids too where it isn't the world's own name.

    Worlds make ids from content, so two tables of one type would give different rollouts equal ids. A table's name
    holds no dot, so what stands before the first one tells the tables apart.
    """
    return [task if task.world == world else replace(task, world=world, id=f"{world}.{task.id}") for task in tasks]


def heldout(world: Any, name: str, split: Split, n: int, seed: int, struck: frozenset[str] = frozenset()) -> list[Task]:
    """Held-out tasks of a world under a run's seed, without those that a list strikes."""
    return named(admission.draw(world, split, n, derive(seed, "heldout", name) % (1 << 31), struck, name), name)


def struck_by(recipe: Recipe, worlds: Mapping[str, Any], run: Run | None = None) -> dict[str, frozenset[str]]:
    """Keys of the tasks that the recipe's lists strike, by world. A run is held to the lists that it began with.

    Raises:
        UserError: a list is missing, is of another world or of other tasks, or has changed since the run began.
    """
    found: dict[str, frozenset[str]] = {}
    for name, world in worlds.items():
        table = recipe.env[name]
        if table.admitted:
            field, path = f"env.{name}.admitted", Path(table.admitted)
            found[name] = admission.refused_of(path, field, table.type, world)
            if run is not None:
                run.pin(field, table.admitted, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def load_trajectories(ctx: Context, stage: str) -> list[Trajectory]:
    """The trajectories of a finished stage."""
    return list(read_jsonl(ctx.run.folder(ctx.name(stage)) / TRAJECTORIES, Trajectory))


def save_trajectories(work: Artifact, trajectories: Sequence[Trajectory]) -> None:
    """Write a stage's trajectories."""
    write_jsonl(work.path / TRAJECTORIES, trajectories)


Progress = Callable[[Trajectory], None]
