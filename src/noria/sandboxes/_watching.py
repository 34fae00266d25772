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
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Told:
    """What Linux tells of a run at one moment.

    threads    by number, those that are there; of one in `yielding` only how long it ran is of use
    used_s     seconds of processors that its processes had, with children of theirs that ended and were waited for
    yielding   threads that chose to let others go first (a higher nice value, SCHED_IDLE)
    newest     number of the last thread that was made in this pid namespace, None = not told
    """

    threads: Mapping[int, Times]
    used_s: float = 0.0
    yielding: frozenset[int] = field(default_factory=frozenset)
    newest: int | None = None


class Clock:
    """The time that counts of one run.

    Of the time in which its threads wanted processors, the share counts in which they had them, and never less than
    if the run had shared all `processors` among its threads: who is in its own way alone is not waited for.

    What ended between two looks was not seen to run. It may have had a processor all that time, so a run in which that
    happens often, or whose threads let others go first, is never one of which nothing is known: else a run could make
    itself one.
    """

    def __init__(self, limit_s: float, now: float, processors: int, newest: int) -> None:
        """`newest`: number of the last thread that was made before those of the run."""
        self._limit_s, self._began, self._processors = limit_s, now, processors
        self._known: dict[int, Times] = {}
        self._ran_ns = self._stood_ns = 0
        self._used_s = self._unseen_s = 0.0
        self._seen_at = now
        self._newest: int | None = newest
        self._yielded = False

    def see(self, told: Told, now: float) -> None:
        """What is told of the run; a thread that is no longer among its threads ended."""
        fresh = len(told.threads.keys() - self._known.keys())
        for thread, (ran, stood) in told.threads.items():
            before = self._known.get(thread, (0, 0))
            if ran < before[0]:  # a new thread of the same number
                before = (0, 0)
            self._ran_ns += ran - before[0]
            if thread not in told.yielding:
                self._stood_ns += max(0, stood - before[1])
        self._used_s = max(self._used_s, told.used_s)
        self._yielded = self._yielded or bool(told.yielding)
        gone = len(self._known.keys() - told.threads.keys())
        self._unseen_s += min(self._processors, gone + self._made(told, fresh) - fresh) * (now - self._seen_at)
        self._known, self._seen_at, self._newest = dict(told.threads), now, told.newest

    def _made(self, told: Told, fresh: int) -> int:
        """Threads that were made since the last look, no fewer than those that are new."""
        if told.newest is None or self._newest is None or told.newest < self._newest:  # numbers begin anew
            return fresh + self._processors
        return max(fresh, told.newest - self._newest)

    @property
    def _ran_s(self) -> float:
        """Seconds of processors that it is known to have had."""
        return max(self._ran_ns / 1e9, self._used_s)

    def counts_s(self, now: float) -> float:
        """Seconds that count."""
        passed = now - self._began
        wanted = (self._ran_ns + self._stood_ns) / 1e9
        if wanted <= 0.0:
            return passed
        shared = passed - min(passed, wanted) * self._stood_ns / (self._ran_ns + self._stood_ns)
        return min(passed, max(shared, self._ran_s / self._processors))

    def left_s(self, now: float) -> float:
        """Seconds until it is to be looked again; 0 where time is up.

        Raises:
            Starved: it waited as long as one may, and surely had less of the processors than its limit.
        """
        left = self._limit_s - self.counts_s(now)
        if left <= 0.0:
            return 0.0
        if now - self._began < longest(self._limit_s):
            return min(left, max(LEAST_TICK_S, min(MOST_TICK_S, self._limit_s / LOOKS)))
        if self._yielded or self._ran_s + self._unseen_s >= self._limit_s:
            return 0.0
        passed = now - self._began
        raise Starved(f"the machine is so busy that a run had {self._ran_s:.2f} s of a processor in {passed:.0f} s")


def told_of(pids: Iterable[int]) -> Told:
    """What Linux tells of these processes; nothing of those that ended meanwhile."""
    found: dict[int, Times] = {}
    yielding: set[int] = set()
    used, own = 0, _group_nice("self")
    newest = _newest()  # before the threads: one that is made meanwhile counts as unseen the next time
    for pid in pids:
        try:
            threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
            with open(f"/proc/{pid}/stat", "rb") as file:
                used += sum(int(word) for word in file.read().rpartition(b")")[2].split()[11:15])
        except (OSError, ValueError):
            continue
        behind = _group_nice(pid) > own
        for thread in threads:
            try:
                with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                    ran, stood, _ = file.read().split()
                found[thread] = (int(ran), int(stood))
                if behind or _yields(thread):
                    yielding.add(thread)
            except (OSError, ValueError):
                continue
    return Told(found, used / os.sysconf("SC_CLK_TCK"), frozenset(yielding), newest)


def _newest() -> int | None:
    """Number of the last thread that was made in this pid namespace; None where Linux does not tell."""
    try:
        with open("/proc/loadavg") as file:
            return int(file.read().split()[-1])
    except (OSError, ValueError, IndexError):
        return None


def _yields(thread: int) -> bool:
    """Whether a thread lets others go first. Raises OSError: it is gone."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    return os.getpriority(os.PRIO_PROCESS, thread) > own or os.sched_getscheduler(thread) == os.SCHED_IDLE


def _group_nice(pid: int | str) -> int:
    """How far its whole session stands back behind other sessions (`autogroup`: "/autogroup-7 nice 19")."""
    try:
        with open(f"/proc/{pid}/autogroup") as file:
            return int(file.read().split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


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
    clock = Clock(timeout_s, time.monotonic(), len(os.sched_getaffinity(0)), child - 1)
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
                clock.see(told_of(others()), now)
                look_at = now + _about(clock.left_s(now))
            wait_s = look_at - now
        return False
    finally:
        os.close(exited)


def _about(wait_s: float) -> float:
    """Half of it to all of it: nobody inside can tell when it is looked, and be another at that moment."""
    return wait_s * (0.5 + os.urandom(1)[0] / 512) if wait_s >= LEAST_TICK_S else wait_s


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
