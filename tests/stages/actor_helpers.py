"""Workers on a clock of their own: rollouts end when a script says so, with the rewards that it says."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stage_helpers import rolled

from noria.core.errors import EngineError
from noria.core.types import Task
from noria.stages.actor import APART, place
from noria.stages.roller import Job, Limits
from noria.stages.worker import Clear, Cleared, Load, Loaded


@dataclass
class Slots:
    """One worker: `slots` rollouts at a time, in the order in which they were sent, on a clock of its own."""

    slots: int
    now: float = 0.0
    alive: bool = True
    waiting: list[Job] = field(default_factory=list)
    running: list[tuple[float, int, Job, int]] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)
    version: int = 0
    sent: int = 0


class ScriptedExecutor:
    """An executor (`core.protocols`) whose workers finish group g after `lasts(g)` with `rewards(g)`, one per rollout.

    Rollouts that belong to no group get `validates(version)`. `ended` lists groups as they finish, `log` every message
    by worker.
    """

    def __init__(
        self, lasts: Callable[[int], float], rewards: Callable[[int], Sequence[float | None]], slots: int = 8,
        size: int = 1, validates: Callable[[int], float | None] = lambda version: 1.0,
    ) -> None:  # fmt: skip
        self.lasts, self.rewards, self.size, self._slots = lasts, rewards, size, slots
        self.validates = validates
        self.workers = [Slots(slots) for _ in range(size)]
        self.ended: list[int] = []
        self.log: list[tuple[int, Any]] = []
        self.restarts: list[int] = []

    def kill(self, worker: int) -> None:
        """The worker is gone with all that it had not said yet."""
        self.workers[worker].alive = False

    def send(self, worker: int, message: Any) -> None:
        state = self.workers[worker]
        if not state.alive:
            raise EngineError("gone")
        self.log.append((worker, message))
        if isinstance(message, Load):
            state.version = message.version
            state.said.append(Loaded(message.version, ""))
        elif isinstance(message, Clear):
            state.waiting, state.running, state.said = [], [], [Cleared()]
        else:
            state.waiting += message
            self._fill(state)

    def receive(self, worker: int, timeout_s: float | None) -> list[Any]:
        state = self.workers[worker]
        if not state.alive:
            raise EngineError("gone")
        if not state.said and timeout_s is None:
            assert state.running, "waits for a worker that has nothing to do"
            state.now, _, job, version = heapq.heappop(state.running)
            group, k = place(job.id)
            if job.id.startswith(APART):
                reward = self.validates(version)
            else:
                self.ended.append(group)
                reward = self.rewards(group)[k]
            done = rolled(reward, task=job.task, version=version, name=job.id)
            state.said.append(replace(done, seed=job.seed))
            self._fill(state)
        said, state.said = state.said, []
        return said

    def ready(self, workers: Sequence[int]) -> list[int]:
        return list(workers)

    def restart(self, worker: int) -> None:
        self.restarts.append(worker)
        self.workers[worker] = Slots(self._slots, now=self.workers[worker].now)

    def close(self) -> None:
        """Nothing runs."""

    def _fill(self, state: Slots) -> None:
        while state.waiting and len(state.running) < state.slots:
            job = state.waiting.pop(0)
            group, _ = place(job.id)
            state.sent += 1
            heapq.heappush(state.running, (state.now + self.lasts(group), state.sent, job, state.version))


@dataclass
class ScriptedPool:
    """What the loop asks of a pool."""

    executor: ScriptedExecutor
    retries: int = 2

    @property
    def size(self) -> int:
        return self.executor.size

    def reset(self) -> None:
        for worker in range(self.size):
            self.executor.send(worker, Clear())
            self.executor.receive(worker, 0)


@dataclass
class ScriptedContext:
    """What an actor asks of a context."""

    pool: ScriptedPool

    def limits(self) -> Limits:
        return Limits()


def numbered(n: int) -> list[Task]:
    """`n` tasks of one world."""
    return [Task(f"t{i}", "ledger", "", "") for i in range(n)]
