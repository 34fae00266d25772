"""A workspace over layers: what it holds in memory is the difference to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from noria.core.errors import PolicyError
from noria.core.protocols import ExecResult
from noria.sandboxes._base import GONE, Base
from noria.sandboxes._client import Entry, Pool
from noria.sandboxes._workspace import MemoryWorkspace, clean, put


class LayeredWorkspace(MemoryWorkspace):
    """A `Workspace` and `Layered`. A fork shares the layers, and costs a copy of the table of differences.

    Files that it is made with are as old as those of the layers: their times do not tell which differ.
    """

    def __init__(self, pool: Pool, entries: dict[str, Entry], disk_mb: int, root: str, base: Base) -> None:
        super().__init__(pool, entries, disk_mb, root)
        self._base = base

    def write(self, path: str, text: str) -> None:
        """Create or replace a file, keeping its permissions. Raises PolicyError when the path is refused."""
        place = self._resolve(path)
        parts = place.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            if self._entry(above) is not None:
                raise PolicyError(f"cannot write {path!r}: {above!r} is not a folder")
        if place in self._base.folders:
            raise PolicyError(f"cannot write {path!r}: it is a folder")
        old = self._entry(place)
        self._entries.pop(place, None)
        put(self._entries, place, Entry(text.encode("utf-8", "surrogateescape"), old.mode & 0o777 if old else 0o644),
            self._disk_mb)  # fmt: skip

    def warm(self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> ExecResult:
        """See `Layered`."""
        return self._do(argv, timeout_s, {"warm": True, "env": dict(env)})

    def changes(self) -> Mapping[str, tuple[bytes, int] | None]:
        """See `Layered`."""
        self._check()
        found: dict[str, tuple[bytes, int] | None] = {}
        for path, entry in self._entries.items():
            if entry == GONE:
                found[path] = None
            elif entry.link is None:
                found[path] = (entry.data, entry.mode & 0o777)
        return found

    def remove(self, path: str) -> None:
        """Take a file away; one that is not there stays away."""
        self._check()
        self._drop(clean(path))

    def files(self) -> Mapping[str, Entry]:
        """All files and links, those of the layers included."""
        self._check()
        whole = {**self._base.entries(), **self._entries}
        return {path: replace(entry, mode=entry.mode & 0o777) for path, entry in whole.items() if entry != GONE}

    def refill(self, files: Mapping[str, Entry]) -> None:
        """Replace all files. Raises PolicyError when a path is refused or the disk has no room; all stays then."""
        old = self._entries
        super().refill(files)
        base = self._base.entries()
        kept = {path: entry for path, entry in self._entries.items() if not _same(entry, base.get(path))}
        for path, entry in kept.items():  # what was not touched stays as old as it was
            if path in old and _same(entry, old[path]):
                kept[path] = old[path]
        self._entries = {**kept, **{path: GONE for path in base if path not in files}}

    def fork(self) -> LayeredWorkspace:
        """An independent copy."""
        self._check()
        return LayeredWorkspace(self._pool, dict(self._entries), self._disk_mb, self._root, self._base)

    def _entry(self, path: str) -> Entry | None:
        entry = self._entries.get(path)
        if entry is None:
            return self._base.get(path)
        return None if entry == GONE else entry

    def _drop(self, path: str) -> None:
        self._entries.pop(path, None)
        if path in self._base:
            self._entries[path] = GONE


def _same(one: Entry, other: Entry | None) -> bool:
    return other is not None and (one.data, one.link) == (other.data, other.link)
