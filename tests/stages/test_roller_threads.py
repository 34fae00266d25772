"""Slow tools run beside the decoding: several at once, nothing else comes out, and a fault stays its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from roller_helpers import SAID, Fragile, Reciter, Watched, finish
from stage_helpers import engine_of

from noria.core.errors import UserError
from noria.core.types import Observation, Outcome, Task, Trajectory
from noria.envs.ledger.world import Config, LedgerWorld
from noria.stages.roller import Job, Limits, Roller
from noria.tokens.renderer import Renderer

#: A test that waits longer than this for another thread has failed.
LIMIT_S = 60.0


class Careful(Watched):
    """Notices when two things happen to it at once, and when it is closed in the middle of one."""

    def __init__(self, *parts) -> None:
        super().__init__(*parts)
        self.busy = threading.Lock()

    @contextmanager
    def alone(self) -> Iterator[None]:
        assert self.busy.acquire(blocking=False), "two calls at once"
        try:
            yield
        finally:
            self.busy.release()

    def act(self, message: str) -> Observation:
        with self.alone():
            self.world.before(self.task, self.acts + 1)
            return super().act(message)

    def grade(self) -> Outcome:
        with self.alone():
            self.world.before(self.task, 0)
            return super().grade()

    def close(self) -> None:
        self.world.sound &= self.busy.acquire(blocking=False)
        super().close()


class Slow(Fragile):
    """A ledger whose tools do `before(task, number of the act, or 0 for the grade)` first."""

    def __init__(self, before: Callable[[Task, int], object], faults: dict[str, str], error=Exception) -> None:
        super().__init__(faults, error)
        self.before = before
        self.sound = True

    def open(self, task: Task) -> Careful:
        return Careful(self, task, LedgerWorld.open(self, task))


def rolling(world: LedgerWorld, renderer: Renderer, engine=None, ordered: bool = True, slots: int = 4) -> Roller:
    roller = Roller({"ledger": world}, renderer, engine or Reciter(renderer), Limits(), slots, {"ledger"})
    roller.errands.ordered = ordered
    return roller


@pytest.fixture(scope="module")
def three() -> list[Task]:
    return LedgerWorld(Config()).tasks("train", 3, 5)


def jobs_of(tasks: list[Task]) -> list[Job]:
    return [Job(t.id, t, i) for i, t in enumerate(tasks)]


@pytest.mark.parametrize("ordered", [True, False])
def test_threads_change_no_trajectory(renderer, taught, tasks, ordered) -> None:
    jobs = jobs_of(tasks["ledger"][:6])
    limits = Limits(max_turns=3, max_new_tokens=24)
    plain = finish(
        Roller({"ledger": LedgerWorld(Config())}, renderer, engine_of(taught, renderer, 1.0), limits, 4), jobs
    )
    world = Slow(lambda task, act: time.sleep(0.001 * act), {})
    roller = rolling(world, renderer, engine_of(taught, renderer, 1.0), ordered)
    roller.limits = limits
    found = finish(roller, jobs)
    assert {id: alike(t) for id, t in found.items()} == {id: alike(t) for id, t in plain.items()}
    for id, t in found.items():
        assert t.record.logp_mu == pytest.approx(plain[id].record.logp_mu, abs=1e-4)
    assert world.open_now == [] and world.sound and roller.engine.free == 8


def alike(t: Trajectory) -> tuple[object, ...]:
    """All of a trajectory but its log-probabilities."""
    return t.turns, t.record.ids, t.record.mask, t.record.turns, t.record.versions, t.outcome, t.stop


def test_in_order_nothing_depends_on_the_clock(renderer, taught, tasks) -> None:
    """The same bits and the same order of ending, whoever was slow."""
    jobs = jobs_of(tasks["ledger"][:6])
    found = []
    for slow in (0, 1):
        world = Slow(lambda task, act, slow=slow: time.sleep(0.01 * (len(task.prompt) % 2 == slow)), {})
        roller = rolling(world, renderer, engine_of(taught, renderer, 1.0))
        roller.limits = Limits(max_turns=3, max_new_tokens=24)
        found.append(list(finish(roller, jobs).values()))
    assert found[0] == found[1]


@pytest.mark.parametrize("ordered", [True, False])
def test_tools_of_several_rollouts_run_at_once(renderer, three, ordered) -> None:
    meet = threading.Barrier(3)
    world = Slow(lambda task, act: meet.wait(LIMIT_S), {})
    found = finish(rolling(world, renderer, ordered=ordered), jobs_of(three))
    assert all(t.outcome.known for t in found.values()) and world.sound
    assert [len(t.turns) for t in found.values()] == [len(SAID)] * 3


def test_the_engine_decodes_while_a_tool_works(renderer, three) -> None:
    """A first act takes until the engine has said two messages more than the three that begin."""
    stepped = threading.Semaphore(0)

    class Counted(Reciter):
        def step(self):
            out = super().step()
            for _ in out:
                stepped.release()
            return out

    held = []

    def before(task: Task, act: int) -> None:
        if task is three[0] and act == 1:
            held.append(all(stepped.acquire(timeout=LIMIT_S) for _ in range(len(three) + 2)))

    found = finish(rolling(Slow(before, {}), renderer, Counted(renderer), ordered=False), jobs_of(three))
    assert held == [True] and all(t.outcome.known for t in found.values())


def test_out_of_order_a_slow_tool_holds_up_nobody(renderer, three) -> None:
    release = threading.Event()
    world = Slow(lambda task, act: release.wait(LIMIT_S) if task is three[0] else None, {})
    roller = rolling(world, renderer, ordered=False)
    roller.submit(jobs_of(three))
    found: list[Trajectory] = []
    while len(found) < 2:
        found += roller.step()
    assert {t.task.id for t in found} == {three[1].id, three[2].id} and roller.pending == 1
    release.set()
    while roller.pending:
        found += roller.step()
    assert len(found) == 3 and all(t.outcome.known for t in found)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("place", ["act 1", "act 2", "grade", "close"])
def test_a_fault_in_a_thread_is_that_rollouts_own(renderer, three, place, ordered) -> None:
    world = Slow(lambda task, act: None, {three[1].id: place}, RuntimeError)
    roller = rolling(world, renderer, ordered=ordered)
    found = finish(roller, jobs_of(three))
    known = [found[t.id].outcome.known for t in three]
    assert known == [True, place == "close", True]
    if place != "close":
        assert found[three[1].id].outcome.reason == f"RuntimeError: {place} failed"
    assert world.open_now == [] and world.sound and roller.engine.said == {} and len(roller.errands) == 0


def test_a_users_fault_in_a_thread_ends_the_run_with_every_episode_closed(renderer, three) -> None:
    world = Slow(lambda task, act: None, {three[1].id: "act 1"}, UserError)
    roller = rolling(world, renderer)
    roller.submit(jobs_of(three))
    with pytest.raises(UserError, match="act 1 failed"):
        while roller.pending:
            roller.step()
    roller.clear()
    assert world.open_now == [] and roller.engine.said == {} and len(roller.errands) == 0


def test_clearing_waits_for_tools_at_work_and_closes_what_they_used(renderer, three) -> None:
    begun, release = threading.Event(), threading.Event()

    def before(task: Task, act: int) -> None:
        begun.set()
        release.wait(LIMIT_S)

    world = Slow(before, {})
    roller = rolling(world, renderer)
    roller.submit(jobs_of(three))
    roller.step()
    assert begun.wait(LIMIT_S) and len(roller.errands) == 3
    threading.Timer(0.05, release.set).start()
    roller.clear()
    assert release.is_set() and world.sound and world.open_now == [] and roller.pending == 0
    assert all(t.outcome.known for t in finish(roller, jobs_of(three)).values())
