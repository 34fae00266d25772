"""What a sandbox might leave on the host, counted from outside: processes, mounts, groups, files, descriptors."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

#: Names of what Noria makes outside begin so: the number is that of the pid namespace.
NAMES = re.compile(r"noria-\d+-(\d+)-|noria-(\d+)-")
PLACES = ("/run", "/tmp", "/var/tmp", "/dev/shm")


@dataclass(frozen=True, slots=True)
class Census:
    """Counts at one moment. `processes` are this process's descendants, `queues` System V objects."""

    processes: int
    mounts: int
    groups: int
    files: int
    descriptors: int
    threads: int
    queues: int

    def more_than(self, before: Census) -> dict[str, int]:
        """What has grown; threads aside, which a pool of the standard library keeps."""
        then = asdict(before)
        return {name: n - then[name] for name, n in asdict(self).items() if n > then[name] and name != "threads"}


def census() -> Census:
    """Count now. Control groups and files count that bear this process's number in their names."""
    groups = 0
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            groups += sum(_ours(name) for _, below, _ in os.walk(point) for name in below)
    files = sum(_ours(name) for place in PLACES if os.path.isdir(place) for name in os.listdir(place))
    queues = sum(len(Path(f"/proc/sysvipc/{kind}").read_text().splitlines()) - 1 for kind in ("shm", "sem", "msg"))
    return Census(
        len(descendants(os.getpid())), len(Path("/proc/self/mounts").read_text().splitlines()), groups, files,
        len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), queues,
    )  # fmt: skip


def settled(before: Census, limit_s: float = 10.0) -> Census:
    """Count again until nothing is more than before, for a while: a killed process takes its time to vanish."""
    deadline = time.monotonic() + limit_s
    while (now := census()).more_than(before) and time.monotonic() < deadline:
        time.sleep(0.02)
    return now


def descendants(pid: int) -> set[int]:
    """Numbers of all processes below one, zombies included."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(folder.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo += below
    return found


def children(pid: int) -> list[int]:
    """Numbers of the processes that one has started; none where it is gone."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def marked(mark: str, limit_s: float = 5.0) -> list[int]:
    """Processes of the whole host with this word in their command line, once those that are dying are gone."""
    deadline = time.monotonic() + limit_s
    while (found := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _marked(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def timed_ms(run: Callable[[], object]) -> float:
    """Milliseconds of wall clock."""
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) * 1000


def peak_mib() -> float:
    """Greatest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def now_mib() -> float:
    """Resident set of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


def _ours(name: str) -> bool:
    found = NAMES.match(name)
    return found is not None and str(os.getpid()) in found.groups()
