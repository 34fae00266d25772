"""What a killed phase goes on from: one file, written aside and renamed, that knows its model and its data.

phase.partial/state.pt    origin (hashes of the model and the data), step, trainer (weights, optimiser),
                          random states, the metrics of the last step, and what the phase itself adds
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from noria.core.codec import dumps
from noria.core.errors import UserError
from noria.core.store import Artifact
from noria.core.types import Task
from noria.stages.snapshot import anew, load_state, save_state
from noria.trainers.rows import Row

STATE = "state.pt"
#: Files of a checkpoint folder that decide what a model computes and reads.
_MODEL_FILES = (".safetensors", ".json", ".jinja", ".model")


@dataclass(frozen=True, slots=True)
class Origin:
    """SHA-256 of what a phase began from; a state goes on with nothing else."""

    model: str
    data: str


def of_model(folder: Path) -> str:
    """SHA-256 of a checkpoint folder's weights, configuration and tokenizer."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in _MODEL_FILES and path.name != "manifest.json":
            with path.open("rb") as file:
                total.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


def of_tasks(tasks: Mapping[str, Sequence[Task]], *parts: object) -> str:
    """SHA-256 of tasks in their order, and of whatever else says how they are drawn."""
    return _hash([*map(repr, parts), *(line for world in tasks for line in (world, *map(dumps, tasks[world])))])


def of_rows(rows: Sequence[Row], *parts: object) -> str:
    """SHA-256 of rows in their order, and of whatever else says how they are drawn."""
    return _hash([*map(repr, parts), *(text for r in rows for text in (r.ids.tobytes().hex(), r.mask.tobytes().hex()))])


def _hash(lines: Iterable[str]) -> str:
    total = hashlib.sha256()
    for line in lines:
        total.update(line.encode() + b"\n")
    return total.hexdigest()


@dataclass(frozen=True, slots=True)
class Keeper:
    """Saves and resumes the state of one phase."""

    work: Artifact
    label: str
    origin: Origin

    @property
    def path(self) -> Path:
        return self.work.path / STATE

    def save(self, step: int, trainer: Mapping[str, Any], metrics: Mapping[str, Any], **more: Any) -> None:
        """Everything that step `step + 1` needs; `metrics` are the row of step `step`."""
        head = {"origin": asdict(self.origin), "step": step, "metrics": dict(metrics)}
        save_state(self.path, {**head, "trainer": trainer, "random": random_states(), **more})

    def resume(self) -> dict[str, Any] | None:
        """The saved state, None where the phase begins; puts the random states and the metrics back to it.

        Raises:
            UserError: the state is of another model, of other data or of another version, or damaged.
        """
        state = load_state(self.path)
        if state is None:
            self.work.run.rewind_metrics(self.label, 0)
            return None
        if state["origin"] != asdict(self.origin):
            raise UserError(_refusal(self.label, state["origin"], self.origin, self.path))
        set_random_states(state["random"])
        self.work.run.rewind_metrics(self.label, state["step"], state["metrics"])
        return state


def _refusal(label: str, then: Mapping[str, str], now: Origin, path: Path) -> str:
    what = [
        f"{text} ({key} {then[key][:12]} then, {value[:12]} now)"
        for (key, value), text in zip(asdict(now).items(), ("another model", "other data"), strict=True)
        if then[key] != value
    ]
    return (
        f"{label} must go on with the model and the data that it began with: got {' and '.join(what)} - put them back, "
        f"start a new run, or {anew(path)}"
    )


def random_states() -> dict[str, Any]:
    """The states of every generator that is shared by the whole process."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state(), "cuda": cuda}  # noqa: NPY002


def set_random_states(states: Mapping[str, Any]) -> None:
    """Put back what `random_states` gave."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
