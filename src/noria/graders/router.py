"""Grades cases of many task types at once: each type has its grader, its own limit of cases in flight and its time.

A case queues for a place, is graded within the time of its type, and is tried again where the sandbox or the judge
failed. What still has no verdict then is *unknown*, with the reason; it is never a 0. One exception: where the same
grader gets through with harmless work, and this case fails again, the work itself defeats its grading, which is the
policy's failure (`_blamed`). A case that is cancelled gives its place back and leaves nothing running that the next one
would meet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noria.core.errors import EngineError, SandboxError, UserError, boundary
from noria.core.registry import nearest
from noria.core.types import Outcome
from noria.graders._children import TOO_SLOW, Children
from noria.graders._tally import Stats, Tally
from noria.graders.base import Case, Given, Grader, control_of
from noria.graders.staged import made
from noria.graders.types import TYPES, TaskType

#: Seconds in which a cancelled grader must let go; one that does not is left behind.
_GRACE_S = 5.0
#: Share of a case's time in which a control run must be through: one that is slow itself clears the policy.
_PROMPT = 0.25
#: Control runs that get through, each followed by another failure of the case, until the policy is blamed. What hangs
#: says more than what breaks: sandboxes die by chance, and of those that do so at 3 uses in 10, three tries and three
#: such rounds are met once in 4,000 cases.
_ROUNDS_HUNG, _ROUNDS_BROKEN = 1, 3
_LATE = "not graded within"
#: A case's time, and that of the longest rounds after it.
_LONGEST = 1 + _ROUNDS_BROKEN * (1 + _PROMPT)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits over all types.

    waiting     cases of a type that may queue for a place; a further one is unknown at once
    waiting_s   seconds that a case may queue; then it is unknown
    children    child processes for what can hang
    child_mb    address space of each in MiB
    """

    waiting: int = 100_000
    waiting_s: float = 600.0
    children: int = 2
    child_mb: int = 2048


@dataclass(slots=True)
class _Desk:
    """A type at work."""

    kind: TaskType
    grader: Grader
    places: asyncio.Semaphore
    tally: Tally = field(default_factory=Tally)


class Router:
    """See the module. Belongs to the event loop in which it is first used; `blocking.BlockingRouter` is for threads."""

    def __init__(
        self, given: Given | None = None, types: Mapping[str, TaskType] = TYPES, limits: Limits | None = None
    ) -> None:
        self.types, self.limits = dict(types), limits or Limits()
        self._given = given or Given()
        self._own = None if self._given.children else Children(self.limits.children, self.limits.child_mb)
        self._desks: dict[str, _Desk] = {}
        self._closed = False

    async def grade(self, case: Case) -> Outcome:
        """The outcome of a case; unknown where grading failed or took too long.

        Raises:
            UserError: no such type, its grader needs what is not given, or the case's spec is wrong.
        """
        desk = self._desk(case.type)
        began = time.monotonic()
        if desk.tally.waiting >= self.limits.waiting:
            return desk.tally.add(Outcome.unknown(f"the queue of {self.limits.waiting} is full"), 0.0, began)
        try:
            async with asyncio.timeout(self.limits.waiting_s):
                with desk.tally.waits():
                    await desk.places.acquire()
        except TimeoutError:
            return desk.tally.add(Outcome.unknown(f"no place within {self.limits.waiting_s:g} s"), 0.0, began)
        started = time.monotonic()
        try:
            found = await self._within_time(desk, case)
            if found.reward is None:
                found = await self._blamed(desk, case, found)
        finally:
            desk.places.release()
        return desk.tally.add(found, time.monotonic() - started, began)

    async def grade_all(self, cases: Iterable[Case]) -> list[Outcome]:
        """The outcomes in the order of the cases. All of them are held at once; see `stream` for more than fit."""
        tasks = [asyncio.ensure_future(self.grade(case)) for case in cases]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            await _gone(tasks)

    async def stream(self, cases: Iterable[Case], ahead: int = 256) -> AsyncIterator[tuple[Case, Outcome]]:
        """Cases with their outcomes, in order, with at most `ahead` of them in flight or waiting to be taken."""
        under_way: list[tuple[Case, asyncio.Task[Outcome]]] = []
        source = iter(cases)
        try:
            while True:
                while len(under_way) < ahead and (case := next(source, None)) is not None:
                    under_way.append((case, asyncio.ensure_future(self.grade(case))))
                if not under_way:
                    return
                case, task = under_way[0]
                outcome = await task
                under_way.pop(0)
                yield case, outcome
        finally:
            await _gone([task for _, task in under_way])

    def stats(self) -> dict[str, Stats]:
        """Counts and times of each type that was used."""
        return {name: desk.tally.stats() for name, desk in self._desks.items()}

    async def close(self) -> None:
        """Close the graders and the router's own child processes; what was given stays open."""
        self._closed = True
        await asyncio.gather(*(desk.grader.close() for desk in self._desks.values()))
        if self._own is not None:
            await self._own.close()

    def _desk(self, name: str) -> _Desk:
        if self._closed:
            raise UserError("router must be open: it is closed - make another")
        if name not in self._desks:
            kind = self.types.get(name)
            if kind is None:
                near = nearest(name, list(self.types))
                raise UserError(f"type must be a task type: got {name!r}{near} - see noria tasks types")
            given = Given(self._given.sandbox, self._given.judge, self._given.children or self._own)
            grader = made(kind.grader, dict(kind.settings), given)
            self._desks[name] = _Desk(kind, grader, asyncio.Semaphore(kind.concurrency))
        return self._desks[name]

    async def _within_time(self, desk: _Desk, case: Case) -> Outcome:
        """Grade with repetitions until the time is up."""
        deadline = time.monotonic() + desk.kind.timeout_s
        pause, found = desk.kind.wait_s, Outcome.unknown("not graded")
        for again in range(1 + desk.kind.retries):
            found, passing = await self._tried(desk, desk.grader.grade(case), deadline - time.monotonic())
            if not passing or again == desk.kind.retries or time.monotonic() + pause >= deadline:
                break
            desk.tally.retries += 1
            await asyncio.sleep(pause)
            pause *= 2
        return found

    async def _blamed(self, desk: _Desk, case: Case, found: Outcome) -> Outcome:
        """0 where the work alone defeats its grading, a verdict where the case has one after all, else what was found.

        In turn a control run, which must get through promptly, and the case, which must fail again.
        """
        whole_s = desk.kind.timeout_s
        hung = _hangs(found)
        for _ in range(_ROUNDS_HUNG if hung else _ROUNDS_BROKEN):
            control, _ = await self._tried(desk, control_of(desk.grader, case), whole_s * _PROMPT)
            if control.reward is None:
                return found
            again, _ = await self._tried(desk, desk.grader.grade(case), whole_s)
            if again.reward is not None:
                return again
            if _hangs(again) != hung:
                return found
        desk.tally.blamed += 1
        return Outcome(0.0, {}, f"it defeats its grading: {found.reason}")

    async def _tried(self, desk: _Desk, work: Coroutine[Any, Any, Outcome], left_s: float) -> tuple[Outcome, bool]:
        """The outcome of one try, and whether another might tell more."""
        task = asyncio.ensure_future(work)
        try:
            done, _ = await asyncio.wait({task}, timeout=max(0.0, left_s))
        finally:
            if not task.done():
                await _gone([task])
        if not done:
            desk.tally.timeouts += 1
            return Outcome.unknown(f"{_LATE} {desk.kind.timeout_s:g} s"), False
        if task.cancelled():
            return Outcome.unknown("the grader was cancelled"), False
        return boundary(lambda: (task.result(), False), _failed)


def longest_s(kind: TaskType | None, limits: Limits) -> float:
    """Seconds that a case may take in all: its wait, its time, and the runs that settle whose fault a failure was."""
    return limits.waiting_s + (kind.timeout_s * _LONGEST if kind else 0.0)


def _hangs(found: Outcome) -> bool:
    return _LATE in found.reason or TOO_SLOW in found.reason


def _failed(fault: BaseException) -> tuple[Outcome, bool]:
    passing = isinstance(fault, SandboxError | EngineError | OSError)
    return Outcome.unknown(f"{type(fault).__name__}: {str(fault)[:200]}"), passing


async def _gone(tasks: Iterable[asyncio.Task[Outcome]]) -> None:
    """Cancel what is left and wait for its end, a while."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_GRACE_S)
