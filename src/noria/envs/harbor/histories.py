"""Histories in what a policy gets to see, a task's `environment/` and the `workdir/` of its steps: taken out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from noria.core.history import GIT, one_commit, read_index, scan

#: Names of leftovers that a note lists.
_TOLD = 8


@dataclass(frozen=True, slots=True)
class Seen:
    """Paths relative to the task folder: trees with a repository, and files and folders that are not read."""

    repositories: tuple[str, ...]
    passed: frozenset[str]

    def passes(self, name: str) -> bool:
        """Whether a file is not read."""
        return any(name == each or name.startswith(each + "/") for each in self.passed)

    def notes(self) -> tuple[str, ...]:
        """What was done, in words."""
        said = [f"{tree}: its history is replaced by one commit" for tree in self.repositories]
        left = sorted(self.passed - {f"{tree}/{GIT}" for tree in self.repositories})
        if left:
            more = f" and {len(left) - _TOLD} more" if len(left) > _TOLD else ""
            said.append(f"may show another state and is left out: {', '.join(map(ascii, left[:_TOLD]))}{more}")
        return tuple(said)


def look(root: Path) -> Seen:
    """What is there of histories. Raises UserError: see `core.history.scan`."""
    repositories: list[str] = []
    passed: list[str] = []
    for part in (root / "environment", *sorted(root.glob("steps/*/workdir"))):
        if part.is_symlink() or not part.is_dir():
            continue
        place, found = part.relative_to(root).as_posix(), scan(part)
        trees = [place if tree == "." else f"{place}/{tree}" for tree in found.repositories]
        repositories += trees
        passed += [f"{place}/{path}" for path in found.leftovers] + [f"{tree}/{GIT}" for tree in trees]
    return Seen(tuple(repositories), frozenset(passed))


def made_anew(root: Path, tree: str, files: Mapping[str, tuple[bytes, bool]]) -> dict[str, bytes]:
    """The files of a repository with one commit, for the tree at `root`/`tree`; paths relative to `root`.

    `files` are those of the whole task by the same paths: bytes, and whether they are executable.

    Raises:
        UserError: git is missing, or does not take the tree.
    """
    with tempfile.TemporaryDirectory(prefix="noria-harbor-") as name:
        place = Path(name) / "tree"
        (place / GIT).mkdir(parents=True)
        (place / GIT / "index").write_bytes(read_index(root / tree))
        for path, (data, executable) in files.items():
            if path.startswith(tree + "/"):
                to = place / path.removeprefix(tree + "/")
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(data)
                to.chmod(0o755 if executable else 0o644)
        one_commit(place)
        return {
            f"{tree}/{path.relative_to(place).as_posix()}": path.read_bytes()
            for path in sorted((place / GIT).rglob("*"))
            if os.path.isfile(path)
        }
