"""Layers: folders of files, stored once under their digest, each with a sheet that says how it was made."""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noria.core.errors import NoriaError
from noria.envs.swe.records import LAYERS, digest_of

#: A source tree has at most so many files and bytes: the sandbox holds them in memory.
MOST_FILES, MOST_BYTES = 15_000, 128 << 20
#: What no tree is given: histories, and what editors and machines leave.
ASIDE = (
    ".git",
    ".hg",
    ".svn",
    ".bzr",
    ".DS_Store",
    "*.orig",
    "*.rej",
    "*.swp",
    ".tox",
    ".nox",
    ".venv",
    "node_modules",
)


class Unfit(NoriaError):
    """A tree cannot be a layer; says why."""


class Store:
    """The layers of a dataset. Other processes may read them, one at a time writes, with several threads."""

    def __init__(self, out: Path) -> None:
        self.root = out / LAYERS
        self.root.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def building(self) -> Iterator[Path]:
        """An empty folder for a layer; what is not kept goes away."""
        place = Path(tempfile.mkdtemp(prefix=".partial-", dir=self.root))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def keep(self, folder: Path, sheet: Mapping[str, Any]) -> str:
        """Move a finished folder to its place; its digest. The sheet of a layer that is there already stays."""
        open_up(folder)
        digest, size = digest_of(folder)
        place = self.root / digest
        if not place.is_dir():
            try:
                os.replace(folder, place)
            except OSError:
                if not place.is_dir():  # else another thread has made the same
                    raise
        about = self.root / f"{digest}.json"
        if not about.is_file():
            text = json.dumps({"digest": digest, "bytes": size, **sheet}, indent=1)
            partial = Path(f"{about}.partial-{threading.get_ident()}")
            partial.write_text(text + "\n", encoding="utf-8")
            os.replace(partial, about)
        return digest

    def sweep(self) -> None:
        """Remove what makers that died have left."""
        for place in self.root.glob(".partial-*"):
            shutil.rmtree(place, ignore_errors=True)


def copy_tree(source: Path, target: Path, without: Sequence[str]) -> None:
    """Copy plain files, and links that stay inside, into an empty folder; the rest is left out.

    Raises:
        Unfit: it is too much.
    """
    count = size = 0
    root = source.resolve()
    for folder, inner, names in os.walk(root):
        below = os.path.relpath(folder, root)
        links = [name for name in inner if os.path.islink(os.path.join(folder, name))]
        inner[:] = sorted(name for name in inner if name not in links and not _matches(name, without))
        for name in sorted([*names, *links]):
            place, to = os.path.join(folder, name), target / below / name
            if _matches(name, without):
                continue
            facts = os.lstat(place)
            if stat.S_ISLNK(facts.st_mode):
                _copy_link(place, to, root)
            elif stat.S_ISREG(facts.st_mode):
                count, size = count + 1, size + facts.st_size
                if count > MOST_FILES or size > MOST_BYTES:
                    raise Unfit(f"it is too large: more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB")
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(place, to)
                to.chmod(0o755 if facts.st_mode & 0o100 else 0o644)


def _copy_link(place: str, to: Path, root: Path) -> None:
    link = os.readlink(place)
    end = os.path.realpath(place)
    if not os.path.isabs(link) and os.path.exists(end) and end.startswith(f"{root}{os.sep}"):
        to.parent.mkdir(parents=True, exist_ok=True)
        to.symlink_to(link)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in (*ASIDE, *patterns))


def open_up(folder: Path) -> None:
    """Let everybody read: a sandbox reads layers as a user without rights."""
    for base, _, names in os.walk(folder):
        os.chmod(base, 0o755)
        for name in names:
            place = os.path.join(base, name)
            if not os.path.islink(place):
                os.chmod(place, 0o755 if os.lstat(place).st_mode & 0o100 else 0o644)
