"""The folder that a dataset is made in."""

from __future__ import annotations

from pathlib import Path

from noria.core.errors import UserError
from noria.envs.swe.records import LAYERS
from noria.factory.origins.base import FULL

#: What a maker that was stopped at once may have left.
LOCK = "lock"


def begin(out: Path) -> Path:
    """Make the folder where it is not there; its lock.

    Raises:
        UserError: it cannot be made, or holds what no maker of tasks has begun and would be written over.
    """
    try:
        if out.exists() and not out.is_dir():
            raise UserError(f"--out must be a folder: got {out}, which is a file - name another")
        out.mkdir(parents=True, exist_ok=True)
        there = sorted(path.name for path in out.iterdir())
    except OSError as fault:
        if fault.errno in FULL:
            raise
        raise UserError(
            f"--out must be a folder that can be made and read: got {out} ({fault.strerror}) - name another"
        ) from fault
    if LAYERS not in there and there not in ([], [LOCK]):
        raise UserError(
            f"--out must be empty, or begun by this command: got {out}, which holds {there[0]} - name another"
        )
    return out / LOCK
