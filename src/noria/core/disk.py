"""A full disk is the machine's fault and ends a command with one message, whichever library ran into it."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noria.core.errors import NoriaError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(NoriaError):
    """A file could not be written for want of room."""


@contextmanager
def roomy(folder: Path, then: str) -> Iterator[None]:
    """Tell of a full disk; `folder` is where the body writes, `then` what to do once there is room.

    Raises:
        DiskFull: the body failed because a disk, or the user's share of one, is full.
    """
    try:
        yield
    except Exception as fault:
        if _is_full(fault):
            free = ", ".join(f"{path} has {_free_mib(path)} MiB free" for path in (folder, Path(tempfile.gettempdir())))
            raise DiskFull(
                f"disk must have room: a file could not be written, {free} - make room, then {then}"
            ) from fault
        raise


def _is_full(fault: BaseException | None) -> bool:
    """Whether a fault, or one that led to it, is of a full disk. torch hides it, safetensors has it as a text."""
    seen: set[int] = set()
    while fault is not None and id(fault) not in seen:
        seen.add(id(fault))
        if isinstance(fault, OSError) and fault.errno in _FULL:
            return True
        if any(f"(os error {number})" in str(fault) for number in _FULL):
            return True
        fault = fault.__cause__ or fault.__context__
    return False


def _free_mib(folder: Path) -> int:
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free >> 20
