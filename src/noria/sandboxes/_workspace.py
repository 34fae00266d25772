"""Workspaces held in memory: a command gets the files, and what it changed is carried back afterwards.

Nothing of a workspace lies on the host's disk, so nothing can be left behind or reached through a link, and
a fork is a copy of a table of immutable entries.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from noria.core.errors import PolicyError
from noria.core.protocols import ExecResult, TestReport
from noria.sandboxes._client import Entry, Pool, pack, unpack

MAX_PATH = 1000
PAGE = 4096
#: What the server says about the tests of a process that got SIGKILL.
KILLED = "killed by signal 9"


def clean(path: str) -> str:
    """A relative path in normal form. Raises PolicyError when it is absolute, empty or leaves the folder."""
    plain = posixpath.normpath(path)
    parts = plain.split("/")
    if not path or path.startswith("/") or ".." in path.split("/") or plain == "." or "\0" in path:
        raise PolicyError(f"path must stay inside the workspace and be relative: got {path!r}")
    if len(plain) > MAX_PATH or any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts):
        raise PolicyError(f"path is too long: {len(path)} characters")
    return plain


def table(files: Mapping[str, str], disk_mb: int) -> dict[str, Entry]:
    """Checked entries of plain text files. Raises PolicyError for bad paths and when they exceed the disk."""
    entries: dict[str, Entry] = {}
    for path, text in files.items():
        put(entries, clean(path), Entry(text.encode("utf-8", "surrogateescape")), disk_mb)
    return entries


def put(entries: dict[str, Entry], path: str, entry: Entry, disk_mb: int) -> None:
    """Set one entry. Raises PolicyError when a parent is a file, `path` is a folder, or the disk is full."""
    parents = path.split("/")[:-1]
    for depth in range(1, len(parents) + 1):
        above = "/".join(parents[:depth])
        if above in entries:
            raise PolicyError(f"cannot write {path!r}: {above!r} is not a folder")
    if path not in entries and any(other.startswith(path + "/") for other in entries):
        raise PolicyError(f"cannot write {path!r}: it is a folder")
    old = _size(entries[path]) if path in entries else 0
    if sum(_size(other) for other in entries.values()) - old + _size(entry) > disk_mb << 20:
        raise PolicyError(f"the workspace is full: at most {disk_mb} MiB")
    entries[path] = entry


def _size(entry: Entry) -> int:
    """Bytes that a file takes in memory: whole pages."""
    return -(-len(entry.data) // PAGE) * PAGE


def run_test(pool: Pool, files: Mapping[str, str], test_path: str, timeout_s: float, disk_mb: int) -> TestReport:
    """`Sandbox.test` over a pool. Raises SandboxError for its own faults, PolicyError for bad paths."""
    entries, payload = pack(table(files, disk_mb))
    path = clean(test_path)
    header = {"op": "test", "entries": entries, "test_path": path, "timeout_s": timeout_s}
    reply, _ = pool.ask(header, payload, timeout_s)
    results: dict[str, str] = reply["results"]
    if reply["out_of_memory"]:
        results = {name: "out of memory" if got == KILLED else got for name, got in results.items()}
    return TestReport(results=results, error=reply["error"])


class MemoryWorkspace:
    """A `Workspace` over a pool of servers."""

    def __init__(self, pool: Pool, entries: dict[str, Entry], disk_mb: int, root: str) -> None:
        self._pool = pool
        self._entries = entries
        self._disk_mb = disk_mb
        self._root = root
        self._closed = False

    def read(self, path: str) -> str:
        """Text of a file; bytes that are not UTF-8 are replaced. Raises PolicyError when there is none."""
        entry = self._entry(self._resolve(path))
        if entry is None:
            raise PolicyError(f"no such file: {path!r}")
        return entry.data.decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        """Create or replace a file, keeping its permissions. Raises PolicyError when the path is refused."""
        place = self._resolve(path)
        mode = self._entries[place].mode if place in self._entries else 0o644
        data = text.encode("utf-8", "surrogateescape")
        put(self._entries, place, Entry(data, mode), self._disk_mb)

    def run(self, argv: Sequence[str], timeout_s: float) -> ExecResult:
        """Run a command over the files. Every process it started is dead when this returns.

        When the files that it left are too many or too large to carry, the workspace stays as it was and
        `killed` is "disk". Raises PolicyError for an empty command, SandboxError when the sandbox failed.
        """
        return self._do(argv, timeout_s, {})

    def _do(self, argv: Sequence[str], timeout_s: float, how: Mapping[str, Any]) -> ExecResult:
        self._check()
        if not argv or not argv[0] or any("\0" in word for word in argv):
            raise PolicyError("a command needs a program's name and words without NUL")
        entries, payload = pack(self._entries)
        header = {"op": "run", "entries": entries, "argv": list(argv), "timeout_s": timeout_s, **how}
        reply, body = self._pool.ask(header, payload, timeout_s)
        killed = "" if reply["kept"] else "disk"
        if reply["kept"]:
            for path in reply["removed"]:
                self._drop(path)
            self._entries.update(unpack(reply["entries"], body))
        if not reply["timed_out"] and reply["code"] == -9:
            killed = "memory" if reply["out_of_memory"] else killed or "signal 9"
        return ExecResult(
            code=reply["code"],
            stdout=reply["stdout"],
            stderr=reply["stderr"],
            seconds=reply["seconds"],
            timed_out=reply["timed_out"],
            killed=killed,
            changed=bool(reply["kept"] and (reply["removed"] or reply["entries"])),
        )

    def files(self) -> Mapping[str, Entry]:
        """All files and links (`core.protocols.Refilled`)."""
        self._check()
        return dict(self._entries)

    def refill(self, files: Mapping[str, Entry]) -> None:
        """Replace all files. Raises PolicyError when a path is refused or the disk has no room; all stays then."""
        self._check()
        fresh = {clean(path): entry for path, entry in files.items()}
        above = {path[:at] for path in fresh for at, sign in enumerate(path) if sign == "/"}
        if above & fresh.keys():
            raise PolicyError(f"{min(above & fresh.keys())!r} is both a file and a folder")
        if sum(map(_size, fresh.values())) > self._disk_mb << 20:
            raise PolicyError(f"the workspace is full: at most {self._disk_mb} MiB")
        self._entries = fresh

    def fork(self) -> MemoryWorkspace:
        """An independent copy. Costs one shallow copy of the table: the contents are shared and immutable."""
        self._check()
        return MemoryWorkspace(self._pool, dict(self._entries), self._disk_mb, self._root)

    def close(self) -> None:
        """Forget the files. Idempotent."""
        self._closed = True
        self._entries = {}

    def _entry(self, path: str) -> Entry | None:
        return self._entries.get(path)

    def _drop(self, path: str) -> None:
        self._entries.pop(path, None)

    def _check(self) -> None:
        if self._closed:
            raise PolicyError("the workspace is closed")

    def _resolve(self, path: str) -> str:
        """Follow symbolic links inside the workspace. Raises PolicyError if they lead out or in a circle."""
        self._check()
        prefix = self._root + "/"
        todo = clean(path).split("/")
        done: list[str] = []
        for _ in range(200):
            if not todo:
                return "/".join(done)
            part = todo.pop(0)
            if part == "..":
                if not done:
                    raise PolicyError(f"path leaves the workspace: {path!r}")
                done.pop()
                continue
            entry = self._entry("/".join([*done, part]))
            if entry is None or entry.link is None:
                done.append(part)
                continue
            link = entry.link
            if link.startswith(prefix):
                link, done = link[len(prefix) :], []
            elif link.startswith("/"):
                raise PolicyError(f"path leaves the workspace: {path!r}")
            todo = [word for word in link.split("/") if word not in ("", ".")] + todo
        raise PolicyError(f"too many symbolic links: {path!r}")
