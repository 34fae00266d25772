"""Answers that counted, kept by what they depend on, so that the same call on the same state is answered the same.

In memory it serves the rollouts of one process. In a file it serves all processes of a run, and the run again after it
was killed; whichever answer was kept first is everybody's.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from contextlib import closing
from pathlib import Path

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import SandboxError, UserError

_WAIT_S = 30.0


class RecordConfig(Checked):
    """Where answers are kept, and how many."""

    path: str = Field(default="", description="a file, made where there is none; empty: in memory, for one process")
    most: int = Field(
        default=20_000, ge=1, le=10**7, description="answers kept: in memory the newest, in a file the first"
    )
    replay: bool = Field(default=False, description="only what is in the file is answered, and nobody is asked")


class InMemory:
    """The newest answers of one process. May be used from several threads at once."""

    def __init__(self, most: int) -> None:
        self._most, self._kept, self._lock = most, OrderedDict[str, str](), threading.Lock()

    def get(self, key: str) -> str | None:
        """The answer that was kept, None where there is none."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: str, answer: str) -> str:
        """Keep an answer unless there is one; the one that is kept."""
        with self._lock:
            answer = self._kept.setdefault(key, answer)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return answer


class InFile:
    """The first answers of all processes that share a file. May be used from several threads at once.

    Raises:
        UserError: the file cannot be opened, or is no record.
    """

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most = path, most
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._opened()) as file, file:
                file.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)")
                file.execute("SELECT key, answer FROM answers LIMIT 1")  # somebody else's table has other columns
        except (OSError, ValueError, sqlite3.Error) as fault:  # a path may hold what no path can
            raise UserError(
                f"record.path must be a file that can be written: {str(path)!r} cannot ({fault}) - name another"
            ) from fault

    def get(self, key: str) -> str | None:
        """The answer that was kept, None where there is none. Raises SandboxError: the file is ill."""
        try:
            with closing(self._opened()) as file:
                found = file.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as fault:
            raise SandboxError(f"the record of answers cannot be read: {fault}") from fault
        return str(found[0]) if found else None

    def put(self, key: str, answer: str) -> str:
        """Keep an answer unless there is one, or the file is full; the one that counts. Raises SandboxError."""
        room = "(SELECT count(*) FROM answers) < ?"
        try:
            with closing(self._opened()) as file, file:
                file.execute(
                    f"INSERT OR IGNORE INTO answers SELECT ?, ? WHERE {room}", (key, answer, self._most)
                )  # fmt: skip
        except sqlite3.Error as fault:
            raise SandboxError(f"the record of answers cannot be written: {fault}") from fault
        return self.get(key) or answer

    def _opened(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_WAIT_S)


Record = InMemory | InFile


def build(config: RecordConfig) -> Record:
    """The record of a config.

    Raises:
        UserError: the file cannot be used, or answers are to be replayed from none.
    """
    if config.replay and not Path(config.path).is_file():
        raise UserError(
            f"record.path must be a file of recorded answers: got {config.path!r} - record some first, "
            "or leave record.replay out"
        )
    return InFile(Path(config.path), config.most) if config.path else InMemory(config.most)
