"""The router for code without an event loop: a world's `grade()` asks it from any thread.

The loop runs in a thread of its own, started at the first case. Worlds that use it set `BLOCKING = True`, so that the
decoding goes on while a case is graded.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from functools import cache
from typing import Any, TypeVar

from noria.core import registry
from noria.core.errors import UserError
from noria.core.types import Outcome
from noria.graders._tally import Stats
from noria.graders.base import Case, Given, Grader
from noria.graders.router import Limits, Router, longest_s
from noria.graders.staged import made
from noria.graders.types import TYPES, TaskType

T = TypeVar("T")
#: Seconds beyond all limits of a case until a caller no longer believes in an answer.
_SPARE_S = 30.0
_CLOSING_S = 15.0


def at_once(case: Case) -> Outcome:
    """The outcome of a case whose grader needs nothing, in the caller's own thread: there is nothing to wait for.

    For worlds that ask for no more than a comparison, and are no `BLOCKING` ones. Only types of `TYPES` whose grader
    has no `NEEDS` are graded so.

    Raises:
        UserError: no such type, its grader waits for something, or the case's spec is wrong.
    """
    try:
        _idle(case.type).grade(case).send(None)
    except StopIteration as end:
        found: Outcome = end.value
        return found
    raise AssertionError("a grader that needs nothing waits for nothing")


@cache
def _idle(name: str) -> Grader:
    kind = TYPES.get(name)
    if kind is None or registry.resolve("graders", kind.grader).NEEDS:
        raise UserError(f"type must be a task type whose grader needs nothing: got {name!r} - use a router")
    return made(kind.grader, dict(kind.settings), Given())


class BlockingRouter:
    """See the module. A process that was forked from one with a router has a router of its own."""

    def __init__(
        self, given: Given | None = None, types: Mapping[str, TaskType] = TYPES, limits: Limits | None = None
    ) -> None:
        self._given, self._types, self._limits = given or Given(), dict(types), limits or Limits()
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def grade(self, case: Case) -> Outcome:
        """The outcome of a case; see `Router.grade`. Waits for it.

        Raises:
            UserError: as there.
        """
        return self._result(self._send(case), case.type)

    def grade_all(self, cases: Iterable[Case]) -> list[Outcome]:
        """The outcomes of several cases at once, in their order."""
        started = [(self._send(case), case.type) for case in cases]
        try:
            return [self._result(future, kind) for future, kind in started]
        finally:
            for future, _ in started:
                future.cancel()

    def stats(self) -> dict[str, Stats]:
        """Counts and times of each type that was used."""
        running = self._running
        return running.router.stats() if running is not None and running.owner == os.getpid() else {}

    def close(self) -> None:
        """End the loop, its graders and their processes. Idempotent; another case starts anew."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _send(self, case: Case) -> Future[Outcome]:
        with self._lock:
            if self._running is None or self._running.owner != os.getpid():
                self._running = _Running(self._given, self._types, self._limits)
            running = self._running
        return running.send(running.router.grade(case))

    def _result(self, future: Future[Outcome], kind: str) -> Outcome:
        limit = longest_s(self._types.get(kind), self._limits) + _SPARE_S
        try:
            return future.result(limit)
        except (TimeoutError, CancelledError):
            future.cancel()
            return Outcome.unknown(f"the router gave no answer within {limit:g} s")


class _Running:
    """A loop in a thread with its router."""

    def __init__(self, given: Given, types: Mapping[str, TaskType], limits: Limits) -> None:
        self.owner = os.getpid()
        self._loop = asyncio.new_event_loop()
        self.router = Router(given, types, limits)
        thread = threading.Thread(target=self._loop.run_forever, name="noria-router", daemon=True)
        thread.start()
        self._thread = thread
        # Child processes end when the loop's thread does; nothing else is left at an exit without `close`.
        self.stop = weakref.finalize(self, _stop, self._loop, thread, self.router, self.owner)

    def send(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, router: Router, owner: int) -> None:
    if owner != os.getpid() or loop.is_closed():
        return
    closing = asyncio.run_coroutine_threadsafe(router.close(), loop)
    try:
        closing.result(_CLOSING_S)
    except TimeoutError:
        closing.cancel()
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_CLOSING_S)
    if not thread.is_alive():
        loop.close()
