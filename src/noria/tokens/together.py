"""Calls of one turn that run at once: what can be told of them comes back in call order, when all have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
#: Threads of one turn at most.
THREADS = 8


@dataclass(frozen=True, slots=True)
class Ahead:
    """A call carried out on a copy of the state, beside its neighbours.

    text     what it gave
    changed  whether the copy is no longer as the state was; then no call behind it counts
    keep     makes the copy the state; may raise PolicyError where the call turns out not to be allowed any more
    drop     forgets the copy
    """

    text: str
    changed: bool
    keep: Callable[[], None]
    drop: Callable[[], None]


def at_once(work: Sequence[Callable[[], T]]) -> list[Future[T]]:
    """Do all of it, in threads; each is done when this returns, with its result or what it raised, in order."""
    with ThreadPoolExecutor(min(len(work), THREADS), thread_name_prefix="noria-call") as threads:
        return [threads.submit(each) for each in work]
