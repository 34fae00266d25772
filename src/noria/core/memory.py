"""The allocator of long-running numeric processes."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Keep freed memory in this process instead of handing it back to the kernel after every step.

    By default glibc maps and unmaps each large tensor, and the kernel zeroes its pages anew every time. Does
    nothing where the C library has no `mallopt`.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
