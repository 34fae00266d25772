"""The files that every workspace of a layered sandbox starts with, read from this machine's folders when asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence

from noria.sandboxes._client import Entry

#: Stands for a file of the layers that the workspace has removed.
GONE = Entry(mode=-1)


class Base:
    """Layers of files, the last on top. Nothing changes them while this is in use."""

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self._from: dict[str, str] = {}
        for folder in folders:
            for above, inner, names in os.walk(folder):
                below = os.path.relpath(above, folder)
                links = [name for name in inner if os.path.islink(os.path.join(above, name))]
                for name in (*names, *links):
                    self._from[os.path.normpath(os.path.join(below, name))] = os.path.join(above, name)
        self.folders: set[str] = set()
        for path in self._from:
            parts = path.split("/")[:-1]
            self.folders.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))

    def __contains__(self, path: object) -> bool:
        return path in self._from

    def entries(self) -> dict[str, Entry]:
        """All files and links."""
        found = ((path, self.get(path)) for path in sorted(self._from))
        return {path: entry for path, entry in found if entry is not None}

    def get(self, path: str) -> Entry | None:
        """A file or link of the layers, None where there is none."""
        place = self._from.get(path)
        if place is None:
            return None
        if os.path.islink(place):
            return Entry(link=os.readlink(place))
        with open(place, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            return Entry(file.read(), 0o755 if mode & 0o100 else 0o644)
