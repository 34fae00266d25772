"""Difficulty pruning of a file of tasks: those stay that a policy solves sometimes (pass_rate@n in a band).

The file is read as a stream, some tasks at a time. Beside what is kept, `<out>.rates` gets one line for every task:
its id, its pass rate over the rollouts whose outcome is known (None = there is none), and how many those are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from noria.core.errors import UserError, boundary
from noria.core.protocols import World
from noria.core.recipe_phases import Difficulty
from noria.core.seeds import derive
from noria.core.types import Message, Outcome, Task
from noria.stages.growing import Growing, tasks_from

#: Tasks between two commits.
BATCH = 64
RATES = ".rates"
REASONS = ("too hard", "too easy", "unknown")
_MAX_TURNS = 64

#: Outcomes of the rollouts of each task.
Roll = Callable[[Sequence[Task]], list[list[Outcome]]]


@dataclass(frozen=True, slots=True)
class Rate:
    """Line of the file of rates."""

    id: str
    rate: float | None
    known: int


def prune(
    source: Path, path: Path, band: Difficulty, settings: dict[str, Any], roll: Roll,
    advance: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:  # fmt: skip
    """Write the tasks of `source` whose pass rate lies in the band, or go on with a file that a killed process left.

    `settings` are what `roll` depends on; `advance` hears how many tasks are measured. The source may have grown since:
    what is new is measured then.

    Raises:
        UserError: the file is another's, or the source holds something else than tasks.
    """
    if not source.is_file():
        raise UserError(f"TASKS must be a file of noria tasks make: got {str(source)!r}, which does not exist")
    if source.resolve() == path.resolve():
        raise UserError(f"--out must be another file than the tasks: got {str(path)!r} - name a new one")
    whole = settings | band.model_dump() | {"source": str(source.resolve())}
    with Growing(path, whole, (RATES,)) as file:
        state: dict[str, Any] = {"offset": 0, "measured": 0, "kept": 0, "dropped": {}} | file.state
        dropped: Counter[str] = Counter(state["dropped"])
        found = tasks_from(source, state["offset"])
        while batch := list(islice(found, BATCH)):
            tasks = [task for _, task in batch]
            for task, outcomes in zip(tasks, roll(tasks), strict=True):
                known = [outcome.solved for outcome in outcomes if outcome.known]
                rate = sum(known) / len(known) if known else None
                file.add(Rate(task.id, rate, len(known)), 1)
                reason = reason_of(rate, band)
                if reason:
                    dropped[reason] += 1
                else:
                    file.add(task)
                    state["kept"] += 1
            state["offset"], state["measured"] = batch[-1][0], state["measured"] + len(batch)
            file.commit(state | {"dropped": dict(dropped)})
            advance(state["measured"])
    return {
        "tasks": state["kept"], "file": str(path), "measured": state["measured"],
        "dropped": {reason: dropped[reason] for reason in REASONS},
    }  # fmt: skip


def reason_of(rate: float | None, band: Difficulty) -> str:
    """Why a task of this pass rate is dropped, "" where it stays."""
    if rate is None:
        return "unknown"
    return "too hard" if rate < band.low else "too easy" if rate > band.high else ""


def by_habits(world: World, rollouts: int, seed: int, strategy: str | None = None) -> Roll:
    """Rollouts of a scripted policy: each draws one of the world's strategies by their weights, or plays the named one.

    Raises:
        UserError: the world does not know the strategy.
    """
    if strategy is not None and strategy not in world.strategies:
        known = ", ".join(world.strategies)
        raise UserError(f"--strategy must be one of {known}: got {strategy!r} - choose one of them")
    names = [strategy] if strategy is not None else list(world.strategies)
    weights = [1.0] if strategy is not None else [world.strategies[name] for name in names]

    def roll(tasks: Sequence[Task]) -> list[list[Outcome]]:
        check_world(tasks, world.name)
        out = []
        for task in tasks:
            seeds = [derive(seed, "prune", task.id, k) for k in range(rollouts)]
            drawn = [random.Random(one).choices(names, weights)[0] for one in seeds]
            out.append([played(world, task, name, one) for name, one in zip(drawn, seeds, strict=True)])
        return out

    return roll


def check_world(tasks: Sequence[Task], name: str) -> None:
    """Raises UserError where tasks are another world's, which would grade none of them."""
    for task in tasks:
        if task.world != name:
            raise UserError(f"--env must be the tasks' world: got {name!r}, but {task.id} is of {task.world!r}")


def played(world: World, task: Task, strategy: str, seed: int) -> Outcome:
    """Outcome of one scripted episode; unknown where the world failed."""
    return boundary(
        lambda: _played(world, task, strategy, seed), lambda fault: Outcome.unknown(f"{type(fault).__name__}: {fault}")
    )


def _played(world: World, task: Task, strategy: str, seed: int) -> Outcome:
    episode = world.open(task)
    try:
        policy, messages = world.policy(task, strategy, seed), list[Message]()
        for _ in range(_MAX_TURNS):
            said = policy(messages)
            seen = episode.act(said)
            if seen.done:
                break
            messages += [Message("assistant", said), Message("tool", seen.text)]
        return episode.grade()
    finally:
        episode.close()
