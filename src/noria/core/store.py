"""Run folders: artifacts whose manifest is written last, one lock, one stream of events.

    runs/quickstart-20260102-101500/
        recipe.json  run.json  pins.json  events.jsonl  metrics.jsonl  lock
        round-1/rollout/{…, manifest.json}      finished
        round-1/pair.partial/                   being made, or left by a process that died

A stage works in `<name>.partial`; its manifest is written to a temporary name, flushed to disk and renamed,
and only then the folder gets its name. So a folder without `.partial` and with a manifest is whole.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from noria import __version__
from noria.core import recipe as recipes
from noria.core.codec import append_jsonl, dumps, read_json, read_json_lines
from noria.core.errors import UserError
from noria.core.lock import hold
from noria.core.recipe import Recipe

MANIFEST = "manifest.json"
PARTIAL = ".partial"
PROGRESS_EVERY_S = 0.5


@dataclass
class Artifact:
    """A folder being made. Write into `path`; say what went in and came out.

    `resumed` is true when `path` holds what an earlier, killed attempt left there. Files named in `scratch` serve the
    making alone: they are kept until the artifact is sealed and are no part of it.
    """

    run: Run
    name: str
    path: Path
    resumed: bool
    seed: int = 0
    inputs: tuple[str, ...] = ()
    counts_in: dict[str, int] = field(default_factory=dict)
    counts_out: dict[str, int] = field(default_factory=dict)
    scratch: tuple[str, ...] = ()
    _last_progress: float = 0.0

    def count_in(self, **counts: int) -> None:
        """Record how many of each thing the stage read."""
        self.counts_in.update(counts)

    def count_out(self, **counts: int) -> None:
        """Record how many of each thing the stage made, or dropped and why."""
        self.counts_out.update(counts)

    def progress(self, done: int, total: int, **values: Any) -> None:
        """Tell the live view; at most two events a second, the last one always."""
        now = time.monotonic()
        if done >= total or now - self._last_progress >= PROGRESS_EVERY_S:
            self._last_progress = now
            self.run.event("progress", stage=self.name, done=done, total=total, **values)


class Run:
    """One run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, runs_dir: Path | str, recipe: Recipe) -> Run:
        """Make `<runs_dir>/<name>-<YYYYmmdd-HHMMSS>[-k]` and save the resolved recipe in it."""
        base = Path(runs_dir)
        try:
            base.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise UserError(
                f"runs_dir must be a folder that can be written: got {str(base)!r} ({fault.strerror})"
            ) from fault
        now = datetime.now(UTC)
        stem = f"{recipe.name}-{now:%Y%m%d-%H%M%S}"
        for attempt in range(1, 1000):
            path = base / (stem if attempt == 1 else f"{stem}-{attempt}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            except OSError as fault:
                if fault.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise  # `core.disk` tells of it
                raise UserError(
                    f"runs_dir must be a folder that can be written: got {str(base)!r} ({fault.strerror}) - name "
                    "another"
                ) from fault
            about = {
                "name": path.name,
                "recipe": recipe.name,
                "fingerprint": recipe.fingerprint(),
                "noria": __version__,
                "created": now.isoformat(),
            }
            write_atomically(path / "recipe.json", recipe.resolved_json())
            write_atomically(path / "run.json", json.dumps(about, indent=2) + "\n")
            return cls(path)
        raise UserError(f"runs_dir {str(base)!r} must have room for a new run: 999 runs began this second - try again")

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """An existing run.

        Raises:
            UserError: the folder is not a run; names the runs beside it.
        """
        folder = Path(path)
        if (folder / "run.json").is_file():
            return cls(folder)
        base = folder if folder.is_dir() else folder.parent
        others = sorted(item.parent.name for item in base.glob("*/run.json")) if base.is_dir() else []
        hint = f"{str(base)!r} holds {', '.join(others[-5:])}" if others else "runs lie under runs/"
        raise UserError(f"RUN must be the folder of a run: got {str(folder)!r}, which has no run.json - {hint}")

    @property
    def name(self) -> str:
        return self.path.name

    def recipe(self) -> Recipe:
        """The recipe that the run was started with, resolved.

        Raises:
            UserError: its file is missing or damaged, or this version of Noria refuses it.
        """
        path = self.path / "recipe.json"
        try:
            text = path.read_text(encoding="utf-8")
            json.loads(text)
        except (FileNotFoundError, ValueError) as fault:
            what = "is missing" if isinstance(fault, FileNotFoundError) else f"is damaged ({fault})"
            raise UserError(
                f"RUN must hold its recipe: {str(path)!r} {what} - put back a copy, or start a new run; "
                "`noria eval` still measures its checkpoints"
            ) from None
        return recipes.from_json(text)

    def folder(self, name: str) -> Path:
        """Where the artifact `name` lies once it is done."""
        return self.path / name

    def manifest(self, name: str) -> dict[str, Any]:
        """The manifest of a finished artifact."""
        data: dict[str, Any] = json.loads((self.folder(name) / MANIFEST).read_text(encoding="utf-8"))
        return data

    def done(self, name: str) -> bool:
        """Whether the artifact is whole: its manifest is there and every file in it has its size."""
        folder = self.folder(name)
        try:
            files = self.manifest(name)["files"]
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
            return False
        for file, facts in files.items():
            path = folder / file
            if not path.is_file() or path.stat().st_size != facts["bytes"]:
                return False
        return True

    def damaged(self, name: str) -> list[str]:
        """Files of a finished artifact whose content no longer has the recorded hash."""
        folder = self.folder(name)
        files = self.manifest(name)["files"]
        return [file for file, facts in files.items() if _hash(folder / file) != facts["sha256"]]

    @contextmanager
    def artifact(
        self,
        name: str,
        *,
        inputs: Sequence[str] = (),
        seed: int = 0,
        resumable: bool = False,
        scratch: Sequence[str] = (),
    ) -> Iterator[Artifact]:
        """Make the artifact `name`: yields a folder to write into, seals it on success.

        Args:
            inputs: finished artifacts that this one was made from; their manifests' hashes are recorded.
            seed: recorded in the manifest.
            resumable: the stage can go on from what a killed attempt left; else that is deleted first.
            scratch: files that a resumed stage needs and nobody after it; removed once the artifact is whole.

        Raises:
            ValueError: the artifact is done already.
        """
        if self.done(name):
            raise ValueError(f"artifact {name} is done already: check run.done first")
        partial = self.path / (name + PARTIAL)
        if partial.exists() and not resumable:
            shutil.rmtree(partial)
        resumed = partial.is_dir()
        partial.mkdir(parents=True, exist_ok=True)
        for torn in partial.glob(".*.tmp"):
            torn.unlink()
        work = Artifact(self, name, partial, resumed, seed=seed, inputs=tuple(inputs), scratch=tuple(scratch))
        started = time.monotonic()
        self.event("stage_start", stage=name, resumed=resumed)
        yield work
        seconds = time.monotonic() - started
        self._seal(work, seconds)
        self.event(
            "stage_end",
            stage=name,
            seconds=round(seconds, 3),
            **{"in": work.counts_in, "out": work.counts_out},
        )

    def _seal(self, work: Artifact, seconds: float) -> None:
        files = {
            str(path.relative_to(work.path)): {"sha256": _hash(path, sync=True), "bytes": path.stat().st_size}
            for path in sorted(work.path.rglob("*"))
            if path.is_file() and path.name != MANIFEST and str(path.relative_to(work.path)) not in work.scratch
        }
        manifest = {
            "name": work.name,
            "created": self._moment(),
            "seconds": round(seconds, 3),
            "seed": work.seed,
            "noria": __version__,
            "inputs": {name: _hash(self.folder(name) / MANIFEST) for name in work.inputs},
            "counts": {"in": work.counts_in, "out": work.counts_out},
            "files": files,
        }
        write_atomically(work.path / MANIFEST, json.dumps(manifest, indent=1) + "\n")
        target = self.folder(work.name)
        if target.exists():  # no manifest, or files missing: `done` said so
            shutil.rmtree(target)
        os.replace(work.path, target)
        sync_folder(target.parent)
        for file in work.scratch:  # not before: a stage that dies while it is sealed still needs them
            (target / file).unlink(missing_ok=True)

    def _moment(self) -> str:
        """Now, and later than every finished artifact: stages are shown in this order, though the clock be set back."""
        latest = ""
        for path in self.path.rglob(MANIFEST):
            if not any(part.endswith(PARTIAL) for part in path.relative_to(self.path).parts):
                latest = max(latest, str((read_json(path) or {}).get("created", "")))
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        if now > latest:
            return now
        return (datetime.fromisoformat(latest) + timedelta(microseconds=1)).isoformat(timespec="microseconds")

    def event(self, kind: str, **values: Any) -> None:
        """Append one event; `t` is seconds since the epoch."""
        append_jsonl(self.path / "events.jsonl", [{"t": round(time.time(), 3), "event": kind, **values}])

    def events(self) -> list[dict[str, Any]]:
        """All events so far, oldest first."""
        return read_json_lines(self.path / "events.jsonl")

    def metrics(self, values: Mapping[str, float | int | str]) -> None:
        """Append one row to metrics.jsonl, as {"phase": "round-1/sft", "step": 3, "loss/ce": 1.2}."""
        append_jsonl(self.path / "metrics.jsonl", [{"t": round(time.time(), 3), **values}])

    def rewind_metrics(self, phase: str, step: int, last: Mapping[str, Any] | None = None) -> None:
        """Forget the rows of `phase` after `step`, which will be made again; `last` is the row of `step` itself.

        It is appended where a process died after it had saved the step and before it had told of it.
        """
        path = self.path / "metrics.jsonl"
        rows = read_json_lines(path)
        kept = [row for row in rows if row.get("phase") != phase or row.get("step", 0) <= step]
        if len(kept) < len(rows):
            write_atomically(path, "".join(dumps(row) + "\n" for row in kept))
        if last is not None and not any(row.get("phase") == phase and row.get("step") == step for row in kept):
            self.metrics(last)

    def pin(self, field: str, value: str, digest: str) -> None:
        """Hold the run to what it began with: `digest` is of what `field` of the recipe names.

        Raises:
            UserError: it was something else when the run began.
        """
        path = self.path / "pins.json"
        pins: dict[str, str] = read_json(path, "remove it if the model is still the one that the run began with") or {}
        if pins.setdefault(field, digest) != digest:
            raise UserError(
                f"{field} must be what this run began with: {value!r} has other files now (SHA-256 {digest[:12]}, was "
                f"{pins[field][:12]}) - put them back, or start a new run"
            )
        write_atomically(path, json.dumps(pins, indent=1) + "\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes off this run; the lock of a dead process is taken over.

        Raises:
            UserError: another living process works on it; names the process.
        """
        with hold(self.path / "lock", f"run {self.name}"):
            yield


def write_atomically(path: Path, text: str) -> None:
    """The file has either its old content or all of the new, whenever the process dies."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _hash(path: Path, sync: bool = False) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if sync:
            os.fsync(file.fileno())
    return digest
