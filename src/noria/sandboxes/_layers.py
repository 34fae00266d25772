"""Keeps the files of layers under the root between requests. Standard library only, loaded by path.

What the layers hold is known to the server alone: a command that has changed a file finds no other copy of it. A file
counts as touched when its inode or ctime has changed, which no program can undo.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import Any

#: Time of change of every file of a layer, so that compiled caches of them stay valid: 2020-01-01, in nanoseconds.
CHANGED_NS = 1_577_836_800 * 10**9
#: Bit of an entry's mode: the file has that time as well.
EVEN = 1 << 20


class Layers:
    """Files under `root`, which belongs to nobody else while `fill` and `restore` run.

    `entries` and `payload` are as in a request.
    """

    def __init__(self, root: str, entries: list[list[Any]], payload: bytes) -> None:
        self._root = root
        self._files: dict[str, tuple[bytes, int, str | None]] = {}
        self._seen: dict[str, tuple[int, ...]] = {}
        offset = 0
        for path, mode, size, link in entries:
            self._files[path] = (payload[offset : offset + size], mode, link)
            offset += size
        self._folders = {""}
        for path in self._files:
            above = os.path.dirname(path)
            while above not in self._folders:
                self._folders.add(above)
                above = os.path.dirname(above)

    def restore(self) -> None:
        """Make the root hold the layers' files and nothing else."""
        found: set[str] = set()
        extra: list[str] = []
        todo = [""]
        while todo:
            below = todo.pop()
            folder = os.path.join(self._root, below)
            if stat.S_IMODE(os.lstat(folder).st_mode) != 0o755:
                os.chmod(folder, 0o755)
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = os.path.join(below, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        (todo if path in self._folders else extra).append(path)
                    elif path in self._seen and _version(entry.stat(follow_symlinks=False)) == self._seen[path]:
                        found.add(path)
                    else:
                        os.unlink(os.path.join(self._root, path))
        for path in extra:
            _open_up(os.path.join(self._root, path))
            shutil.rmtree(os.path.join(self._root, path))
        for path in self._files:
            if path not in found:
                self._write(path)

    def _write(self, path: str) -> None:
        target = os.path.join(self._root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        data, mode, link = self._files[path]
        if link is not None:
            os.symlink(link, target)
        else:
            with open(target, "xb") as file:
                file.write(data)
            os.chmod(target, mode)
            os.utime(target, ns=(CHANGED_NS, CHANGED_NS))
        self._seen[path] = _version(os.lstat(target))


def _open_up(folder: str) -> None:
    """Let folders that a command has closed be removed."""
    for base, folders, _ in os.walk(folder):
        os.chmod(base, 0o755)
        for name in folders:
            inner = os.path.join(base, name)
            if not os.path.islink(inner):
                os.chmod(inner, 0o755)


def _version(item: os.stat_result) -> tuple[int, ...]:
    return item.st_ino, item.st_size, item.st_mode, item.st_ctime_ns
