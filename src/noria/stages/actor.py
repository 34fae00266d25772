"""What samples while the learner trains: the workers with what they owe.

Groups are numbered as they are admitted; a number decides the task, the seeds and the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noria.core.errors import EngineError, UserError
from noria.core.types import Trajectory
from noria.sources.base import TaskSource
from noria.stages.context import Context, derive
from noria.stages.roller import Job
from noria.stages.worker import Load, Loaded, check_going

#: First letters of the ids of jobs: those of groups, and those that belong to none.
GROUPED, APART = "g", "v"


def _unchanged(job: Job) -> Job:
    return job


@dataclass
class Actor:
    """The learner's side of the actors: what is admitted, in flight and finished, by group.

    Group g belongs to worker g modulo `workers`, so who does what depends on nothing but their number. Each worker may
    die as often as the pool retries; what it owed is done again by its successor, under the same weights.
    """

    ctx: Context
    source: TaskSource
    rollouts: int
    seed: int
    workers: int = 1
    #: whether rollouts must depend on no clock
    ordered: bool = True
    admitted: int = 0
    deaths: dict[int, int] = field(default_factory=dict)
    finished: dict[int, dict[int, Trajectory]] = field(default_factory=dict)
    #: what was asked for apart from the groups, by job
    answers: dict[str, Trajectory] = field(default_factory=dict)
    owed: dict[str, Job] = field(default_factory=dict)
    retried: dict[str, int] = field(default_factory=dict)
    weights: Load | None = None
    #: makes a job what the phase wants at this step
    shape: Callable[[Job], Job] = _unchanged

    def admit(self, upto: int) -> None:
        """Send groups until `upto` groups were ever admitted."""
        jobs = []
        while self.admitted < upto:
            task = self.source.task(self.admitted)
            for k in range(self.rollouts):
                key = f"{GROUPED}{self.admitted}/{k}"
                jobs.append(self.shape(Job(key, task, derive(self.seed, self.admitted, k))))
            self.admitted += 1
        if jobs:
            self.owed |= {job.id: job for job in jobs}
            self._send(jobs)

    def load(self, weights: bytes, version: int, temperature: float) -> None:
        """Give every worker new weights; they take effect between two decoding steps."""
        self.weights = Load(weights, version, temperature, self.ctx.limits(), self.ordered)
        for worker in range(self.workers):
            self._tell(worker, self.weights)

    def take(self, group: int) -> list[Trajectory]:
        """Wait for a group and hand it out."""
        mine = self._of(group)
        while len(self.finished.get(group, ())) < self.rollouts:
            self.listen(mine, None)
            for worker in range(self.workers):
                if worker != mine:
                    self.listen(worker, 0)
        return [t for _, t in sorted(self.finished.pop(group).items())]

    def ask(self, jobs: Sequence[Job]) -> list[Trajectory]:
        """Rollouts that belong to no group, under the weights that the workers have; in the order of the jobs.

        Their ids are `APART`, a number that decides the worker, "/" and which of its jobs it is.
        """
        self.owed |= {job.id: job for job in jobs}
        self._send(jobs)
        for job in jobs:
            while job.id not in self.answers:
                mine = self._of(place(job.id)[0])
                self.listen(mine, None)
                for worker in range(self.workers):
                    if worker != mine:
                        self.listen(worker, 0)
        return [self.answers.pop(job.id) for job in jobs]

    def listen(self, worker: int, timeout_s: float | None) -> None:
        """Take in what a worker has to say."""
        try:
            for message in self.ctx.pool.executor.receive(worker, timeout_s):
                self._hear(message)
        except EngineError:
            self._revive(worker)

    def state(self) -> dict[str, Any]:
        """What has been admitted and is not yet trained: rollouts that are finished, and jobs that are owed."""
        for worker in range(self.workers):
            self.listen(worker, 0)
        return {
            "admitted": self.admitted, "finished": self.finished, "owed": list(self.owed.values()),
            "retried": {id: tries for id, tries in self.retried.items() if id in self.owed},
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Keep what was finished and send again what was owed, to however many workers there are now."""
        self.admitted, self.finished, self.retried = state["admitted"], state["finished"], state["retried"]
        self.owed = {job.id: job for job in state["owed"]}
        if self.owed:
            self._send(state["owed"])

    def _hear(self, message: Any) -> None:
        if isinstance(message, Loaded):
            return
        check_going(message)
        job = self.owed.pop(message.id, None)
        if job is None:
            return
        tries = self.retried.get(job.id, 0)
        if not message.outcome.known and tries < self.ctx.pool.retries:
            self.retried[job.id] = tries + 1
            self.owed[job.id] = job
            self._send([job])
            return
        if job.id.startswith(APART):
            self.answers[job.id] = message
            return
        group, k = place(job.id)
        self.finished.setdefault(group, {})[k] = message

    def _of(self, group: int) -> int:
        """The worker of a group."""
        return group % self.workers

    def _send(self, jobs: Sequence[Job]) -> None:
        """Every job to the worker of its group, in their order."""
        parts: dict[int, list[Job]] = {}
        for job in jobs:
            parts.setdefault(self._of(place(job.id)[0]), []).append(job)
        for worker, part in sorted(parts.items()):
            self._tell(worker, part)

    def _tell(self, worker: int, message: Any) -> None:
        try:
            self.ctx.pool.executor.send(worker, message)
        except EngineError:
            self._revive(worker)

    def _revive(self, worker: int) -> None:
        self.deaths[worker] = self.deaths.get(worker, 0) + 1
        if self.deaths[worker] > self.ctx.pool.retries:
            name = "the actor" if self.workers == 1 else f"actor {worker}"
            raise EngineError(f"{name} died {self.deaths[worker]} times in one phase")
        executor = self.ctx.pool.executor
        executor.restart(worker)
        if self.weights is not None:
            executor.send(worker, self.weights)
        executor.send(worker, [job for job in self.owed.values() if self._of(place(job.id)[0]) == worker])


def place(id: str) -> tuple[int, int]:
    """The number of a job's group, and which of the group's rollouts it is."""
    group, k = id[1:].split("/")
    return int(group), int(k)


def workers_for(wanted: int | None, size: int) -> int:
    """How many of a pool's `size` workers sample: as many as wanted, else all but the one whose core the learner takes.

    Raises:
        UserError: the pool has fewer.
    """
    if wanted is not None and wanted > size:
        raise UserError(f"actors must be at most the executor's workers: got {wanted} and {size} - set actors = {size}")
    return wanted or max(1, size - 1)
