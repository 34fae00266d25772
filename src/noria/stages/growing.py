"""Files of JSON lines that grow by commits: who was killed goes on where the last commit was made.

tasks.jsonl          the lines
tasks.jsonl.state    of what settings it is made, how many bytes of it count, and where its maker stood
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from io import BufferedRandom
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from noria.core.codec import dumps, from_json, read_json
from noria.core.errors import UserError
from noria.core.store import write_atomically
from noria.core.types import Task

STATE = ".state"


class Growing:
    """One growing file, and further ones beside it that are committed with it (`more`: suffixes of their names).

    `settings` are plain JSON of what the content depends on. `state` is what the last commit was told, {} at first,
    `done` whether nothing is to come. One process at a time has it open.

    Raises:
        UserError: a file of other settings lies there, or one that is no growing file, or another process makes it.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], more: tuple[str, ...] = ()) -> None:
        self.path, self._settings = path, json.loads(json.dumps(settings))
        self._paths = [path, *(path.with_name(path.name + suffix) for suffix in more)]
        self._state = path.with_name(path.name + STATE)
        self._files: list[BufferedRandom] = []
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if self.path.exists() and not self.path.is_file():
            raise UserError(f"--out must be a file: got {str(self.path)!r} - name one")
        try:
            for path in self._paths:
                self._files.append(path.open("a+b"))
        except PermissionError as fault:
            raise UserError(f"--out must be a file that can be written: got {str(self.path)!r} ({fault})") from None
        try:
            fcntl.flock(self._files[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"--out must be one process's: another makes {str(self.path)!r} - wait for it") from None
        found = read_json(self._state, f"remove it and {str(self.path)!r}, and call the command again")
        if found is None and os.fstat(self._files[0].fileno()).st_size:
            raise UserError(f"--out must be a new file: got {str(self.path)!r}, which lies there - name another")
        found = found or {"settings": self._settings, "bytes": [0] * len(self._files), "state": {}, "done": False}
        if found["settings"] != self._settings:
            odd = sorted(k for k, v in self._settings.items() if found["settings"].get(k) != v)
            raise UserError(
                f"--out must be a new file, or be made by the same options: {str(self.path)!r} differs in "
                f"{', '.join(odd) or 'them'} - name another, or remove it and {str(self._state)!r}"
            )
        self.state: dict[str, Any] = found["state"]
        self.done: bool = found["done"]
        for file, size in zip(self._files, found["bytes"], strict=True):
            if os.fstat(file.fileno()).st_size < size:
                raise UserError(
                    f"--out must be whole: {file.name!r} was cut - remove it and {str(self._state)!r}, and call again"
                )
            file.truncate(size)
        self.commit(self.state, self.done)  # from now on the file is known to be ours

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_new = fault is not None and not self.state and not any(path.stat().st_size for path in self._paths)
        self.close()
        if is_new:  # what failed at once leaves no name that the corrected command would stumble over
            for path in (*self._paths, self._state):
                path.unlink(missing_ok=True)

    def tasks(self) -> Iterator[Task]:
        """The tasks that the first file holds."""
        for _, task in tasks_from(self.path, 0):
            yield task

    def add(self, carrier: Any, at: int = 0) -> None:
        """One more line of file number `at`; it counts from the next commit on."""
        self._files[at].write((dumps(carrier) + "\n").encode("ascii"))

    def commit(self, state: Mapping[str, Any], done: bool = False) -> None:
        """All lines so far count, and their maker stands where `state` says."""
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())
        self.state, self.done = dict(state), done
        sizes = [os.fstat(file.fileno()).st_size for file in self._files]
        whole = {"settings": self._settings, "bytes": sizes, "state": self.state, "done": done}
        write_atomically(self._state, json.dumps(whole) + "\n")

    def close(self) -> None:
        """Leave the files as they are. What was not committed is cut off when they are opened again. Idempotent."""
        for file in self._files:
            file.close()
        self._files = []


def tasks_from(path: Path, offset: int) -> Iterator[tuple[int, Task]]:
    """Tasks of a file of JSON lines from a byte on, each with the byte after its line; a torn last line is left out.

    Raises:
        UserError: a line that is no task; names the byte where it begins.
    """
    with path.open("rb") as file:
        file.seek(offset)
        while (line := file.readline()).endswith(b"\n"):
            try:
                task = from_json(Task, json.loads(line))
            except (ValueError, TypeError, KeyError) as fault:
                raise UserError(
                    f"{str(path)!r} must hold tasks: the line at byte {offset} is none ({fault}) - see noria tasks make"
                ) from None
            offset += len(line)
            yield offset, task
