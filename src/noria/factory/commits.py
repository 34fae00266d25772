"""Commits of a repository's history that can be taken back on the tree of today."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noria.factory.origins.base import client

#: Commits that are read at most, and sources that one may change.
MOST_COMMITS, MOST_FILES = 5_000, 5
#: Bytes of all sources without their commits: they are kept in memory and on the disk.
MOST_BYTES = 64 << 20
_GIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Revert:
    """The sources as they would be without a commit. `files`: path -> text; `tested`: it changed tests as well."""

    commit: str
    files: tuple[tuple[str, str], ...]
    tested: bool

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"commit": self.commit, "files": [list(pair) for pair in self.files], "tested": self.tested}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Revert:
        """Inverse of `to_json`."""
        return cls(str(data["commit"]), tuple((str(p), str(t)) for p, t in data["files"]), bool(data["tested"]))


def reverts(clone: Path, head: str, sources: Sequence[str], tests: Sequence[str], limit: int) -> tuple[Revert, ...]:
    """Up to `limit` commits below `head` that can be taken back without a conflict, in order.

    Each changes sources, and neither adds nor removes one. Those that change tests as well come first, then the newest.

    Raises:
        Unfetched: git does not tell its history.
    """
    known, tested = set(sources), set(tests)
    commits = [
        (commit, [path for _, path in changes if path in known], any(path in tested for _, path in changes))
        for commit, changes in _log(clone, head)
        if all(how == "M" for how, path in changes if path in known or path.endswith(_endings(sources)))
    ]
    fitting = [each for each in commits if 0 < len(each[1]) <= MOST_FILES]
    found: list[Revert] = []
    size = 0
    for commit, paths, with_tests in sorted(fitting, key=lambda each: not each[2]):
        if len(found) == limit or size > MOST_BYTES:
            break
        files = [(path, _without(clone, head, commit, path)) for path in paths]
        if all(text is not None for _, text in files):
            found.append(Revert(commit, tuple((path, text) for path, text in files if text is not None), with_tests))
            size += sum(len(text or "") for _, text in files)
    return tuple(found)


def _endings(sources: Sequence[str]) -> tuple[str, ...]:
    return tuple({Path(path).suffix for path in sources if Path(path).suffix})


def _log(clone: Path, head: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Commits with a single parent, the newest first, and what each did to which file: "M" changed, "A", "D"."""
    words = ["git", "-c", "core.quotePath=false", "log", "--no-merges", "--no-renames", "--no-ext-diff",
             "--no-show-signature", "--name-status", f"--max-count={MOST_COMMITS}",
             "--format=%x02%H", head]  # fmt: skip
    for part in client(words, clone).split("\x02")[1:]:
        commit, *lines = part.strip().split("\n")
        changes = [line.split("\t", 1) for line in lines if "\t" in line]
        if re.fullmatch(r"[0-9a-f]{40,64}", commit):
            yield commit, [(how, path) for how, path in changes]


def _without(clone: Path, head: str, commit: str, path: str) -> str | None:
    """A file of `head` without what a commit did to it; None where that is a conflict, nothing, or no text."""
    versions = [_content(clone, f"{name}:{path}") for name in (head, commit, f"{commit}^")]
    if any(each is None for each in versions) or versions[1] == versions[2]:
        return None
    with tempfile.TemporaryDirectory(prefix="noria-merge-") as place:
        names = [Path(place, name) for name in ("now", "with", "without")]
        for name, data in zip(names, versions, strict=True):
            name.write_bytes(data or b"")
        done = _git(["merge-file", "-p", "--quiet", *map(str, names)], Path(place))
    if done is None or done.returncode != 0 or done.stdout == versions[0]:
        return None
    try:
        return done.stdout.decode()
    except UnicodeDecodeError:
        return None


def _content(clone: Path, name: str) -> bytes | None:
    done = _git(["cat-file", "blob", name], clone)
    return done.stdout if done is not None and done.returncode == 0 else None


def _git(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes] | None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", *words], cwd=folder, env=env, capture_output=True, check=False, timeout=_GIT_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
