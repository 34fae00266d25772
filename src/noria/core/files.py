"""Files that a policy may have made: read without trust."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from noria.core.errors import PolicyError

#: Bytes of such a file at most.
MOST = 1 << 20


def read_plain(path: Path, most: int = MOST) -> str | None:
    """The text of a file that a policy may have made, None where there is none.

    Raises:
        PolicyError: it is no plain file (a link, a pipe), or too large.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise PolicyError(f"{path.name} must be a plain file: {fault.strerror}") from fault
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_size > most:
        os.close(handle)
        raise PolicyError(f"{path.name} must be a plain file of {most} bytes at most")
    with open(handle, "rb") as file:
        return file.read(most).decode("utf-8", "replace")
