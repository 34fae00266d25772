"""An engine that recites and a ledger that fails where it is told to, for tests of the roller."""

from __future__ import annotations

from collections.abc import Sequence

from noria.core.errors import SandboxError
from noria.core.protocols import Completion
from noria.core.types import Observation, Outcome, Task, Trajectory
from noria.envs.ledger.world import Config, LedgerEpisode, LedgerWorld
from noria.stages.roller import Job, Roller
from noria.tokens.calls import render_call
from noria.tokens.renderer import Renderer

LIST, SUBMIT = render_call("list"), render_call("submit")
SAID = (LIST, LIST, LIST, SUBMIT)


class Watched:
    """An episode of the ledger that is counted; `faults` says at which call of which method it raises."""

    def __init__(self, world: Fragile, task: Task, inner: LedgerEpisode, acts: int = 0) -> None:
        self.world, self.task, self.inner, self.acts = world, task, inner, acts
        self.world.open_now.append(self)

    def act(self, message: str) -> Observation:
        self.acts += 1
        self.world.meet(self.task, f"act {self.acts}")
        return self.inner.act(message)

    def grade(self) -> Outcome:
        self.world.meet(self.task, "grade")
        return self.inner.grade()

    def fork(self) -> Watched:
        self.world.meet(self.task, "fork")
        return Watched(self.world, self.task, self.inner.fork(), self.acts)

    def close(self) -> None:
        self.world.open_now.remove(self)  # a second time raises
        self.world.meet(self.task, "close")


class Fragile(LedgerWorld):
    """The ledger on a machine that fails where `faults` says: task id to "act 2", "open", "close" and so on."""

    def __init__(self, faults: dict[str, str], error: type[Exception] = SandboxError) -> None:
        super().__init__(Config())
        self.faults, self.error = faults, error
        self.open_now: list[Watched] = []

    def meet(self, task: Task, what: str) -> None:
        if self.faults.get(task.id) == what:
            raise self.error(f"{what} failed")

    def open(self, task: Task) -> Watched:
        self.meet(task, "open")
        return Watched(self, task, super().open(task))

    def policy(self, task: Task, strategy: str, seed: int):
        self.meet(task, "policy")
        return super().policy(task, strategy, seed)


class Reciter:
    """An engine that says `SAID` in every sequence; from its `full`-th sequence on it takes none and leaves a trace."""

    version = 0

    def __init__(self, renderer: Renderer, full: int = 99) -> None:
        self.renderer, self.full = renderer, full
        self.said: dict[int, int] = {}
        self.waiting: list[int] = []

    def add(self, seq: int, ids: Sequence[int], max_new: int, seed: int) -> None:
        self.said.setdefault(seq, -1)
        if seq >= self.full:
            raise SandboxError("engine is full")
        self.said[seq] += 1
        self.waiting.append(seq)

    def step(self) -> list[Completion]:
        done, self.waiting = self.waiting, []
        out = []
        for seq in done:
            ids = self.renderer.message(SAID[self.said[seq]])
            out.append(Completion(seq, ids, (-0.5,) * len(ids), (0,) * len(ids), "end"))
        return out

    def drop(self, seq: int) -> None:
        self.said.pop(seq, None)


def finish(roller: Roller, jobs: list[Job]) -> dict[str, Trajectory]:
    roller.submit(jobs)
    found: dict[str, Trajectory] = {}
    while roller.pending:
        for trajectory in roller.step():
            assert trajectory.id not in found
            found[trajectory.id] = trajectory
    return found
