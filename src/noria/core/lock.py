"""A lock file that names its holder, so that the lock of a dead process can be taken over."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noria.core.errors import UserError

#: A full disk is told of by `core.disk`.
_FULL = (errno.ENOSPC, errno.EDQUOT)

Holder = dict[str, int | str | None]


@contextmanager
def hold(path: Path, what: str) -> Iterator[None]:
    """Hold the lock at `path` for the body.

    The holder (process, its start time, host) is written into the file under a short `flock`: one kept for
    the whole body would pass to forked workers and outlive the process.

    Raises:
        UserError: a living process holds it, or one on another host, which cannot be asked; or the folder cannot be
            written.
    """
    me: Holder = {"pid": os.getpid(), "started": _started(os.getpid()), "host": socket.gethostname()}
    try:
        _exchange(path, me, what)
    except OSError as fault:
        if fault.errno in _FULL:
            raise
        raise UserError(
            f"{what} must be in a folder that can be written: {str(path)!r} cannot ({fault.strerror}) - change its "
            "permissions, or copy the run to another place"
        ) from fault
    try:
        yield
    finally:
        _release(path, me)


def _exchange(path: Path, me: Holder, what: str) -> None:
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        holder = _parsed(file.read())
        if holder and holder["host"] != me["host"]:
            raise UserError(
                f"{what} must not be worked on twice: process {holder['pid']} of {holder['host']} is at it"
                f" - stop it there, or delete {path} if it is gone"
            )
        if holder and _alive(holder):
            raise UserError(
                f"{what} must not be worked on twice: process {holder['pid']} is at it - wait for it, or stop it"
            )
        file.seek(0)
        file.truncate()
        file.write(json.dumps(me))


def _release(path: Path, me: Holder) -> None:
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if _parsed(file.read()) == me:
            file.seek(0)
            file.truncate()


def _parsed(text: str) -> Holder | None:
    """The holder, None for a free lock and for one whose writing was cut short."""
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) and {"pid", "started", "host"} <= data.keys() else None


def _alive(holder: Holder) -> bool:
    pid = holder["pid"]
    return isinstance(pid, int) and _started(pid) == holder["started"] and holder["started"] is not None


def _started(pid: int) -> str | None:
    """When a living process started (a reused number is told apart by it); None if it is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists() or not _exists(pid):
            return None
        return "unknown"  # no /proc on this system: the number alone has to do
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
