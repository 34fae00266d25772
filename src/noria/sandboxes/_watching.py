"""Waits for a child as long as its limit says; what it waits for a processor does not count.

Standard library only, started from the server's folder like it.

A run that others starve would otherwise look like one that does not end. Linux tells of each thread how long it ran
and how long it stood in line for a processor (`/proc/PID/task/TID/schedstat`: nanoseconds, nanoseconds, slices). Where
it does not, the limit is of the clock.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable, Iterable, Mapping

#: A run gets at most so many times its limit by the clock, and never more than so many seconds beyond it.
PATIENCE, MOST_MORE_S = 20.0, 600.0
#: Times that a limit is divided by to look how long others were in the way, and bounds of what comes out, in s.
LOOKS, LEAST_TICK_S, MOST_TICK_S = 20.0, 0.05, 0.5
#: Nanoseconds that a thread ran, and stood in line.
Times = tuple[int, int]


class Starved(OSError):
    """A run had so little of the processors that nothing is known of it."""


def longest(timeout_s: float) -> float:
    """Seconds by the clock that a run with this limit takes at most."""
    return timeout_s + min(PATIENCE * timeout_s, MOST_MORE_S)


class Clock:
    """The time that counts of one run.

    Of the time in which its threads wanted processors, the share counts in which they had them: threads of the run
    that stand in each other's way share two processors as any program would.
    """

    def __init__(self, limit_s: float, now: float) -> None:
        self._limit_s, self._began = limit_s, now
        self._known: dict[int, Times] = {}
        self._ran_ns = self._stood_ns = 0

    def see(self, threads: Mapping[int, Times]) -> None:
        """What is told of the run's threads; one that is no longer among them ended."""
        for thread, (ran, stood) in threads.items():
            before = self._known.get(thread, (0, 0))
            if ran < before[0]:  # a new thread of the same number
                before = (0, 0)
            self._ran_ns += ran - before[0]
            self._stood_ns += stood - before[1]
        self._known = dict(threads)

    def counts_s(self, now: float) -> float:
        """Seconds that count."""
        passed = now - self._began
        wanted = (self._ran_ns + self._stood_ns) / 1e9
        if wanted <= 0.0:
            return passed
        return passed - min(passed, wanted) * self._stood_ns / (self._ran_ns + self._stood_ns)

    def left_s(self, now: float) -> float:
        """Seconds until it is to be looked again; 0 where time is up.

        Raises:
            Starved: it waited as long as one may, and had less of the processors than its limit.
        """
        left = self._limit_s - self.counts_s(now)
        if left <= 0.0:
            return 0.0
        if now - self._began < longest(self._limit_s):
            return min(left, max(LEAST_TICK_S, min(MOST_TICK_S, self._limit_s / LOOKS)))
        if self._ran_ns / 1e9 >= self._limit_s:
            return 0.0
        had, passed = self._ran_ns / 1e9, now - self._began
        raise Starved(f"the machine is so busy that a run had {had:.2f} s of a processor in {passed:.0f} s")


def told_of(pids: Iterable[int]) -> dict[int, Times]:
    """Of each thread of these processes what Linux tells; nothing of those that ended meanwhile."""
    found: dict[int, Times] = {}
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                    ran, stood, _ = file.read().split()
            except (OSError, ValueError):
                continue
            found[int(thread)] = (int(ran), int(stood))
    return found


def all_others() -> list[int]:
    """What process 1 of a pid namespace sees beside itself."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def descendants() -> list[int]:
    """All that this process started, and they in turn."""
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        parent = todo.pop()
        try:
            with open(f"/proc/{parent}/task/{parent}/children") as file:
                children = [int(word) for word in file.read().split()]
        except OSError:
            continue
        found += children
        todo += children
    return found


def watch(
    child: int,
    sinks: Mapping[int, Callable[[bytes], None]],
    timeout_s: float,
    client: int,
    others: Callable[[], list[int]],
) -> bool:
    """Feed what arrives to the sinks until the child ends (True) or time is up.

    Raises:
        EOFError: the client, whose descriptor is `client`, is gone.
        Starved: nothing is known of the run.
    """
    clock = Clock(timeout_s, time.monotonic())
    exited = os.pidfd_open(child)
    poll = select.poll()
    poll.register(exited, select.POLLIN)
    poll.register(client, 0)  # a hang-up is always reported
    for descriptor in sinks:
        os.set_blocking(descriptor, False)
        poll.register(descriptor, select.POLLIN)
    wait_s, look_at = clock.left_s(time.monotonic()), time.monotonic()
    look_at += wait_s
    try:
        while wait_s > 0.0:
            for descriptor, event in poll.poll(math.ceil(wait_s * 1000)):
                if descriptor == client:
                    if event & (select.POLLHUP | select.POLLERR):
                        raise EOFError
                elif descriptor == exited:
                    return True
                elif not drain(descriptor, sinks[descriptor], 1):
                    poll.unregister(descriptor)
            now = time.monotonic()
            if now >= look_at:
                clock.see(told_of(others()))
                look_at = now + clock.left_s(now)
            wait_s = look_at - now
        return False
    finally:
        os.close(exited)


def drain(descriptor: int, sink: Callable[[bytes], None], times: int) -> bool:
    """Read what is there, at most `times` × 64 KiB. False at the end of the stream."""
    for _ in range(times):
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        sink(data)
    return True
