"""A service for tests: it counts numbers down, one a slice, and answers with what it was told and who it is."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Any


class Countdown:
    """Told `(name, n)` it answers `(name, pid, payload)` after n slices; "die" and "fail" end the process,
    "sleep" makes the next slice an hour long.

    The argument is the number of bytes of a payload.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.left: deque[list[Any]] = deque()

    def receive(self, message: Any) -> None:
        if message == "fail":
            raise RuntimeError("as it was told")
        if message == "die":
            os._exit(7)
        if message == "sleep":
            self.left.append([None, 0])
        elif isinstance(message, bytes):
            self.left.append([len(message), 0])
        else:
            self.left.append(list(message))

    def work(self) -> list[Any]:
        out = []
        for item in list(self.left):
            if item[0] is None:
                print(os.getpid(), flush=True)
                time.sleep(3600)
            item[1] -= 1
            if item[1] < 0:
                self.left.remove(item)
                out.append((item[0], os.getpid(), b"x" * self.size))
        return out

    def busy(self) -> bool:
        return bool(self.left)

    def close(self) -> None:
        self.left.clear()
