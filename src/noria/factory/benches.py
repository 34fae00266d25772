"""The benches of many repositories, of which a few are open at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from noria.core.protocols import Sandbox
from noria.envs.swe.trial import Bench
from noria.factory.repository import Prepared, opened

#: Benches that stay open although nobody uses them: each holds a server or more with the runner loaded.
OPEN = 6


class Benches:
    """Benches by repository, opened when they are first used. Thread-safe; `close` ends all."""

    def __init__(self, out: Path, sandbox: Sandbox) -> None:
        self._out, self._sandbox = out, sandbox
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[AbstractContextManager[Bench], Bench]] = OrderedDict()
        self._users: dict[str, int] = {}

    @contextmanager
    def use(self, prepared: Prepared) -> Iterator[Bench]:
        """The bench of a repository, which stays open for the body. Raises SandboxError: it does not start."""
        name = prepared.repo.name
        with self._lock:
            if name not in self._open:
                context = opened(prepared.repo, self._out, prepared.language, self._sandbox)
                self._open[name] = (context, context.__enter__())
            self._open.move_to_end(name)
            bench = self._open[name][1]
            self._users[name] = self._users.get(name, 0) + 1
        try:
            yield bench
        finally:
            with self._lock:
                self._users[name] -= 1
                self._shrink()

    def close(self) -> None:
        """Stop the sandboxes of all benches; nobody uses one any more."""
        with self._lock:
            for context, _ in self._open.values():
                context.__exit__(None, None, None)
            self._open.clear()

    def _shrink(self) -> None:
        """Close what was not used for longest."""
        for name in list(self._open):
            if len(self._open) <= OPEN:
                return
            if not self._users.get(name):
                context, _ = self._open.pop(name)
                context.__exit__(None, None, None)
