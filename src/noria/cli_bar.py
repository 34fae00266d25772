"""How far long work is: a bar on a terminal, now and then a line elsewhere. To standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

#: Seconds between two lines where there is no terminal.
LINES_S = 30.0


class Advance(Protocol):
    """Tells how much is done, and what is being done where that is worth saying."""

    def __call__(self, done: int, what: str = "", total: int | None = None) -> None: ...


class Bars:
    """One row after another; `quiet` says nothing at all."""

    def __init__(self, console: Console, progress: Progress, quiet: bool) -> None:
        self._console, self._progress = console, progress
        self._lines = not quiet and not console.is_terminal
        self._said = time.monotonic()

    def row(self, name: str, total: int) -> Advance:
        """A row of the bar from here on; what it is called with is `done` of `total`, which a call may change."""
        row: TaskID = self._progress.add_task(name, total=total)
        most = total

        def advance(done: int, what: str = "", total: int | None = None) -> None:
            nonlocal most
            most = most if total is None else total
            said = f"{name} {what}" if what else name
            self._progress.update(row, completed=done, description=said, total=most)
            self._line(f"{said}: {done} of {most}")

        return advance

    def _line(self, text: str) -> None:
        now = time.monotonic()
        if self._lines and now - self._said >= LINES_S:
            self._said = now
            self._console.print(Text(text), soft_wrap=True)


@contextmanager
def bars(quiet: bool) -> Iterator[Bars]:
    """Bars on standard error for the time of a block."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as progress:
        yield Bars(console, progress, quiet)
