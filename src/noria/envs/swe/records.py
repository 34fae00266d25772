"""What the task factory writes and the world reads: repositories, tasks, and where their layers lie.

OUT/dataset.json            what was made, from what, with which settings
OUT/repos/<name>.json       one repository: its layout, its layers, the tests that pass on it
OUT/tasks.jsonl             one task a line; its bug is a list of edits and a patch of some KB
OUT/layers/<digest>/        the files of a layer, stored once; <digest>.json says how it was made
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from noria.core.code import Edit, apply
from noria.core.errors import UserError
from noria.languages.base import Layout

FORMAT = 1
#: Operator of a task with several bugs at once, and what stands between their targets.
COMBINED, TOGETHER = "combined", " + "
DATASET, TASKS, REPOS, LAYERS = "dataset.json", "tasks.jsonl", "repos", "layers"


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository that was found sound.

    source      what was asked for, as `pypi:toolz`; `revision` is the digest or commit of what was got
    deps, tree  digests of its layers; `built` is that of what its build leaves, "" = nothing
    tests       ids of those that passed in every run of the tree as it is, in order
    suite_s     seconds of a run of all of them, the median
    left_out    tests, or files of them, that are not asked, and why, as pairs
    """

    name: str
    source: str
    revision: str
    layout: Layout
    deps: str
    tree: str
    tests: tuple[str, ...]
    suite_s: float
    built: str = ""
    left_out: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Repo:
        """Inverse of `to_json`. Raises KeyError, TypeError, ValueError for other data."""
        for digest in (data["deps"], data["tree"], data["built"]):
            if not re.fullmatch(r"[0-9a-f]{32}|", digest):
                raise ValueError(f"{digest!r} names no layer")
        layout = dict(data["layout"])
        for key in ("sources", "tests", "settings", "needs", "hidden"):
            layout[key] = tuple(layout[key])
        layout["facts"] = tuple((str(key), str(value)) for key, value in layout["facts"])
        left_out = tuple((str(test), str(why)) for test, why in data.get("left_out", ()))
        return cls(**{**data, "layout": Layout(**layout), "tests": tuple(data["tests"]), "left_out": left_out})


@dataclass(frozen=True, slots=True)
class SweTask:
    """One bug with its proof. The tests that must go on passing are those of the repository but `broken` and `unsure`.

    bug           edits that break the tree
    patch         unified diff that mends it
    fail_to_pass  fail in every run with the bug, pass in every run without
    unsure        neither that nor passing in every run with the bug
    """

    id: str
    repo: str
    language: str
    operator: str
    target: str
    complexity: int
    bug: tuple[Edit, ...]
    patch: str
    statement: str
    style: str
    fail_to_pass: tuple[str, ...]
    unsure: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def pass_to_pass(self, repo: Repo) -> tuple[str, ...]:
        """Tests that pass in every run with and without the bug."""
        out = {*self.fail_to_pass, *self.unsure}
        return tuple(test for test in repo.tests if test not in out)

    def check(self, repos: Mapping[str, Repo]) -> None:
        """Raises ValueError: it is no task of these repositories, or none that can be played."""
        texts = {"id": self.id, "statement": self.statement, "patch": self.patch, "target": self.target,
                 "operator": self.operator, "language": self.language, "style": self.style}  # fmt: skip
        for name, text in texts.items():
            if not isinstance(text, str) or re.search("[\ud800-\udfff]", text):
                raise ValueError(f"{name} of the task {self.id!r} is no text")
        if self.repo not in repos:
            raise ValueError(f"{self.id} is of {self.repo!r}, of which there is no file in {REPOS}")
        if not self.bug or not self.fail_to_pass:
            raise ValueError(f"{self.id} has no bug, or no test that fails with it")
        known = set(repos[self.repo].tests)
        strange = next((test for test in (*self.fail_to_pass, *self.unsure) if test not in known), None)
        if strange is not None:
            raise ValueError(f"{self.id} asks {strange!r}, which is no test of {self.repo}")

    def broken(self, tree: Path) -> dict[str, bytes]:
        """The files that the bug changes, as they are with it. Raises OSError, ValueError: another tree."""
        paths = dict.fromkeys(edit.path for edit in self.bug)
        return apply({path: (tree / path).read_bytes() for path in paths}, self.bug)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SweTask:
        """Inverse of `to_json`. Raises KeyError, TypeError, ValueError for other data."""
        bug = tuple(Edit(**edit) for edit in data["bug"])
        for edit in bug:
            if edit.path.startswith("/") or ".." in edit.path.split("/"):
                raise ValueError(f"{edit.path!r} leads out of the tree")
        lists = {key: tuple(data[key]) for key in ("fail_to_pass", "unsure")}
        return cls(**{**data, "bug": bug, **lists})


class Dataset:
    """A folder that the factory wrote."""

    def __init__(self, root: Path) -> None:
        """Raises UserError where there is none, or it is of another version."""
        self.root = root
        self._whole: set[str] = set()
        try:
            head = json.loads((root / DATASET).read_text(encoding="utf-8"))
            if head["format"] != FORMAT:
                raise UserError(f"path must hold a dataset of format {FORMAT}: got {head['format']} - make it anew")
            self.repos = {repo.name: repo for repo in self._repos()}
            self.tasks: dict[str, SweTask] = {}
            for task in self._tasks():
                if task.id in self.tasks:
                    raise ValueError(f"{task.id} stands in {TASKS} twice")
                task.check(self.repos)
                self.tasks[task.id] = task
        except (FileNotFoundError, NotADirectoryError) as fault:
            raise UserError(
                f"path must be a folder that `noria tasks make swe` wrote: got {root} without {fault.filename} - "
                "make one, or name another"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as fault:
            said = f"no {fault}" if isinstance(fault, KeyError) else fault
            raise UserError(f"path must hold a sound dataset: {root}: {said} - make it anew") from fault

    def layer(self, digest: str) -> Path:
        """The folder of a layer."""
        return self.root / LAYERS / digest

    def check_layers(self, repo: Repo) -> None:
        """Read the layers of a repository once. Raises UserError: one is gone, or its files are not those it had."""
        for digest in filter(None, (repo.tree, repo.deps, repo.built)):
            place = self.layer(digest)
            if digest not in self._whole and (not place.is_dir() or digest_of(place)[0] != digest):
                how = "has other files" if place.is_dir() else "is gone"
                raise UserError(
                    f"path must hold the layers of {repo.name} as they were made: {place} {how} - make it anew"
                )
            self._whole.add(digest)

    def _repos(self) -> Iterator[Repo]:
        for path in sorted((self.root / REPOS).glob("*.json")):
            yield Repo.from_json(json.loads(path.read_text(encoding="utf-8")))

    def _tasks(self) -> Iterator[SweTask]:
        with (self.root / TASKS).open(encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    yield SweTask.from_json(json.loads(line))


def digest_of(folder: Path) -> tuple[str, int]:
    """SHA-256 over paths, kinds and contents in order of the paths, in hex, and bytes in all."""
    total = hashlib.sha256()
    size = 0
    for path in sorted(_places(folder)):
        place = folder / path
        if place.is_symlink():
            total.update(f"{path}\0link\0{os.readlink(place)}\n".encode("utf-8", "surrogateescape"))
            continue
        data = place.read_bytes()
        size += len(data)
        kind = "run" if place.stat().st_mode & 0o100 else "file"
        total.update(f"{path}\0{kind}\0{hashlib.sha256(data).hexdigest()}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()[:32], size


def _places(folder: Path) -> Iterator[str]:
    for base, inner, names in os.walk(folder):
        below = os.path.relpath(base, folder)
        links = [name for name in inner if os.path.islink(os.path.join(base, name))]
        for name in (*names, *links):
            yield os.path.normpath(os.path.join(below, name))
