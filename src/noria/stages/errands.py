"""Calls of slow tools that run beside the decoding, in threads; each belongs to one rollout, and a rollout has one.

What comes back decides which sequences are decoded together, and with that the last bits of their log-probabilities.
So there are two orders. In the first, an errand comes back after so many decoding steps and is waited for, or at
once where nothing is left to decode: this depends on no clock. In the second it comes back as soon as it is done, for
phases in which the moment of new weights depends on a clock anyway.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from noria.core.errors import SandboxError
from noria.core.types import Trajectory

#: What is done with the answer; the first call of it raises what the errand raised.
Then = Callable[[Callable[[], Any]], Trajectory | None]
#: Calls made at once at most: so many containers or requests at a time are bearable for what serves them.
THREADS = 32
#: Decoding steps after which an errand is waited for. A prefill waits for company about as long anyway.
PATIENCE = 4


class Overdue(SandboxError):
    """A call that took longer than it may; `answer` tells when it has ended after all."""

    def __init__(self, limit_s: float, answer: Future[Any]) -> None:
        super().__init__(f"no answer within {limit_s:g} s")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Errand:
    """A call that was sent away at a certain step; `then` goes on with the rollout `key`.

    `deadline` is when it is given up, in seconds of the clock; None = never. `limit_s` is the time it had.
    """

    key: int
    answer: Future[Any]
    then: Then
    step: int
    deadline: float | None = None
    limit_s: float = 0.0

    def settle(self) -> Trajectory | None:
        """Go on with the rollout; waits for the answer. Raises Overdue."""
        if self.deadline is not None:
            wait([self.answer], timeout=max(0.0, self.deadline - time.monotonic()))
            if not self.answer.done():
                self.answer.cancel()  # one that has not begun never does
                raise Overdue(self.limit_s, self.answer)
        return self.then(self.answer.result)

    @property
    def is_home(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.answer.done() or (self.deadline is not None and time.monotonic() >= self.deadline)


class Errands:
    """What is under way. Belongs to one thread; only the calls themselves run in others, started when needed."""

    def __init__(self) -> None:
        #: whether answers come back after a fixed number of steps, whatever the clock says
        self.ordered = True
        self._away: list[Errand] = []
        self._steps = 0
        self._threads: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return len(self._away)

    def send(self, key: int, call: Callable[[], Any], then: Then, limit_s: float | None = None) -> None:
        """Make the call in a thread; it may take `limit_s` seconds, None = as many as it likes."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="noria-tool")
        deadline = None if limit_s is None else time.monotonic() + limit_s
        errand = Errand(key, self._threads.submit(call), then, self._steps, deadline, limit_s or 0.0)
        self._away.append(errand)

    def back(self, idle: bool) -> list[Errand]:
        """What to settle before the next decoding step, in the order of leaving; `idle`: nothing is left to decode."""
        self._steps += 1
        if self.ordered:
            home = [e for e in self._away if idle or self._steps - e.step > PATIENCE]
        else:
            if idle:
                ends = [e.deadline for e in self._away if e.deadline is not None]
                timeout = max(0.0, min(ends) - time.monotonic()) if ends else None
                wait([e.answer for e in self._away], timeout, FIRST_COMPLETED)
            home = [e for e in self._away if e.is_home]
        self._away = self._away[len(home) :] if self.ordered else [e for e in self._away if e not in home]
        return home

    def clear(self) -> None:
        """Forget every errand: what has not begun never does, what has is waited for, so that nothing is in use."""
        self._away = []
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        self._threads = None
