"""Turns a fork of the server into a limited process. Standard library only, loaded by path like it."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
import resource
import signal
from typing import Any

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Linux's prctl with one argument. Raises OSError."""
    if _libc().prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def detach(keep: tuple[int, ...]) -> None:
    """Leave the server: own session, no descriptor above 2 but those in `keep`, no life after its own."""
    os.setsid()
    edges = [2, *sorted(keep), os.sysconf("SC_OPEN_MAX")]
    for low, high in itertools.pairwise(edges):
        os.closerange(low + 1, high)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def limit(config: dict[str, Any], timeout_s: float, test: bool) -> None:
    """Set the limits of a request. From here on the process is as open to others inside as they are to it."""
    prctl(PR_SET_DUMPABLE, 1)
    score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(score, b"1000")
    os.close(score)
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: math.ceil(timeout_s) + 2,
        resource.RLIMIT_FSIZE: int(config["disk_mb"]) << 20,
        resource.RLIMIT_NOFILE: 256,
    }
    if test or config["limit_address_space"]:
        limits[resource.RLIMIT_AS] = int(config["memory_mb"]) << 20
    if not test:  # what Python ignores for itself would stay ignored in the command
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
    if config["pids"]:  # outside a user namespace this would count all processes of the user
        limits[resource.RLIMIT_NPROC] = int(config["pids"])
    for what, most in limits.items():
        resource.setrlimit(what, (most, most))
