"""Where the learner works: in the process that leads the run, or as a service behind an executor.

The service holds the trainer; what leads the run calls its methods by message and knows it by the protocol `Learner`.
Arguments and values travel pickled. A step over rows that were just scored names them, so that a forward pass kept
from scoring serves it there as well. A learner that dies ends the phase, which goes on from its last saved state.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from noria.core.errors import EngineError, NoriaError, UserError
from noria.core.memory import keep_freed_memory
from noria.core.protocols import Executor
from noria.core.recipe_tables import ExecutorTable, TrainerTable
from noria.losses.base import Batch, Loss
from noria.losses.states import Head
from noria.stages.scoring import PATIENCE_S, Setup, started
from noria.trainers.auxiliary import paired
from noria.trainers.local import LocalTrainer
from noria.trainers.rows import Row

SERVICE = f"{__name__}.LearnerService"
#: Of a row, what decides its forward pass; it is not sent again with a step that follows a score.
_READ = ("ids", "mask")


class Learner(Protocol):
    """What a phase needs of a trainer; `trainers.local.LocalTrainer` says what each method does."""

    def use_threads(self, n: int) -> None: ...
    def configure(self, lr: float, betas: tuple[float, float], weight_decay: float, grad_norm: float) -> None: ...
    def set_lr(self, lr: float) -> None: ...
    def score(
        self, rows: Sequence[Row], temperature: float = 1.0, tokens: int = 8192, keep: int = 0
    ) -> list[NDArray[np.float64]]: ...
    def states(self, rows: Sequence[Row], tokens: int = 8192) -> list[torch.Tensor]: ...
    def head(self, name: str = "student", temperature: float = 1.0) -> Head: ...
    def step(
        self,
        rows: Sequence[Row],
        terms: Mapping[str, Loss],
        coefficients: Mapping[str, float],
        temperature: float = 1.0,
        tokens: int = 4096,
        annotate: Callable[[Batch], Batch] | None = None,
    ) -> dict[str, float]: ...
    def continued(
        self, ids: Sequence[int], max_new: int, end_ids: Sequence[int], temperature: float, seed: int
    ) -> list[int]: ...
    def weights(self) -> bytes: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any]) -> None: ...
    def save(self, folder: Path, like: Path) -> None: ...


@dataclass(frozen=True, slots=True)
class Second:
    """A second policy beside the student, see `trainers.auxiliary`."""

    folder: str
    lr: float | None
    origin: str


@dataclass(frozen=True, slots=True)
class Call:
    """One method of the trainer with its pickled arguments."""

    method: str
    arguments: bytes


@dataclass(frozen=True, slots=True)
class Value:
    """What a call gave, pickled: its value, or the fault that it raised."""

    pickled: bytes
    fault: bool = False


class LearnerService:
    """A trainer that runs in a worker (`core.protocols.Service`)."""

    def __init__(self, setup: Setup) -> None:
        keep_freed_memory()
        table = TrainerTable(type=setup.type, **setup.options)
        self._config, self._module = table.config(), table.module()
        self.trainer: LocalTrainer | None = None
        self._scored: list[Row] = []
        self._calls: list[Call] = []

    def receive(self, message: Any) -> None:
        self._calls.append(message)

    def busy(self) -> bool:
        return bool(self._calls)

    def work(self) -> list[Any]:
        """Does the oldest call. What is no fault of the run's or of its data ends the process."""
        if not self._calls:
            return []
        call = self._calls.pop(0)
        own: dict[str, Callable[..., Any]] = {
            "open": self._open, "score": self._score, "step": self._step, "head_matrix": self._head_matrix
        }  # fmt: skip
        made = own.get(call.method) or getattr(self.trainer, call.method)
        try:
            return [Value(pickle.dumps(made(*pickle.loads(call.arguments))))]
        except (NoriaError, ValueError, OSError) as fault:
            return [Value(pickle.dumps(fault), fault=True)]

    def close(self) -> None:
        """There is nothing to close."""

    def _open(self, folder: str, second: Second | None) -> None:
        self.trainer, self._scored = None, []  # before the next one is built, or two would be held
        if second is None:
            self.trainer = self._module.build(self._config, Path(folder))
        else:
            self.trainer = paired(self._config, Path(folder), Path(second.folder), second.lr, second.origin)

    def _score(self, rows: list[Row], temperature: float, tokens: int, keep: int) -> list[NDArray[np.float64]]:
        assert self.trainer is not None
        self._scored = rows
        return self.trainer.score(rows, temperature, tokens, keep)

    def _step(self, rows: list[Row], again: list[int | None], *rest: Any) -> dict[str, float]:
        assert self.trainer is not None
        whole = [
            row if at is None else self._renewed(row, self._scored[at]) for row, at in zip(rows, again, strict=True)
        ]
        return self.trainer.step(whole, *rest)

    @staticmethod
    def _renewed(row: Row, scored: Row) -> Row:
        """The row that was scored, with everything that the step says of it."""
        for each in fields(Row):
            if each.name not in _READ or not np.array_equal(getattr(row, each.name), getattr(scored, each.name)):
                setattr(scored, each.name, getattr(row, each.name))
        return scored

    def _head_matrix(self) -> tuple[torch.Tensor, float, int]:
        assert self.trainer is not None
        head = self.trainer.head()
        return head.load().detach(), head.scale, head.chunk_tokens


class Far:
    """A learner that an executor runs (`Learner`).

    Raises (from every method):
        EngineError: the service is gone; the phase's saved state is not.
        BadStep, UserError, ValueError: as the trainer does.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._scored: dict[int, int] = {}
        self._rows: list[Row] = []

    def open(self, folder: Path, second: Second | None) -> None:
        """Begin a phase from a checkpoint folder."""
        self._scored, self._rows = {}, []
        self._call("open", str(folder), second)

    def use_threads(self, n: int) -> None:
        self._call("use_threads", n)

    def configure(self, lr: float, betas: tuple[float, float], weight_decay: float, grad_norm: float) -> None:
        self._call("configure", lr, betas, weight_decay, grad_norm)

    def set_lr(self, lr: float) -> None:
        self._call("set_lr", lr)

    def score(
        self, rows: Sequence[Row], temperature: float = 1.0, tokens: int = 8192, keep: int = 0
    ) -> list[NDArray[np.float64]]:
        self._rows = list(rows)  # kept, so that their identities stay theirs
        self._scored = {id(row): i for i, row in enumerate(rows)}
        found: list[NDArray[np.float64]] = self._call("score", self._rows, temperature, tokens, keep)
        return found

    def states(self, rows: Sequence[Row], tokens: int = 8192) -> list[torch.Tensor]:
        found: list[torch.Tensor] = self._call("states", list(rows), tokens)
        return found

    def head(self, name: str = "student", temperature: float = 1.0) -> Head:
        """The head as it stands now; its matrix is fetched once."""
        matrix, scale, chunk_tokens = self._call("head_matrix")
        return Head(name, lambda: matrix, temperature, scale, chunk_tokens=chunk_tokens)

    def step(
        self,
        rows: Sequence[Row],
        terms: Mapping[str, Loss],
        coefficients: Mapping[str, float],
        temperature: float = 1.0,
        tokens: int = 4096,
        annotate: Callable[[Batch], Batch] | None = None,
    ) -> dict[str, float]:
        again = [self._scored.get(id(row)) for row in rows]
        given = (list(rows), again, dict(terms), dict(coefficients), temperature, tokens, annotate)
        found: dict[str, float] = self._call("step", *given)
        return found

    def continued(
        self, ids: Sequence[int], max_new: int, end_ids: Sequence[int], temperature: float, seed: int
    ) -> list[int]:
        found: list[int] = self._call("continued", list(ids), max_new, tuple(end_ids), temperature, seed)
        return found

    def weights(self) -> bytes:
        found: bytes = self._call("weights")
        return found

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self._call("state")
        return found

    def restore(self, state: Mapping[str, Any]) -> None:
        self._call("restore", dict(state))

    def save(self, folder: Path, like: Path) -> None:
        self._call("save", folder, like)

    def close(self) -> None:
        """End the service."""
        self.executor.close()

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            given = pickle.dumps(arguments)
        except (pickle.PicklingError, AttributeError, TypeError) as fault:
            raise UserError(
                f"learner must be able to take what the phase gives it: {fault} - define what your own module builds "
                'at the top of a module, or set learner = "here"'
            ) from fault
        try:
            self.executor.send(0, Call(method, given))
            values = self.executor.receive(0, PATIENCE_S)
            if not values:
                raise EngineError(f"it said nothing for {PATIENCE_S:.0f} s")
        except EngineError as fault:
            self.executor.restart(0)  # the next phase, or the next run, begins with `open`
            raise EngineError(
                f"the learner is gone ({fault}) - resume the run: it goes on from its last step"
            ) from fault
        (value,) = values
        found = pickle.loads(value.pickled)
        if value.fault:
            raise found
        return found


class FarLearner:
    """The learner of a run, started when its first phase begins."""

    def __init__(self, table: ExecutorTable, trainer: TrainerTable) -> None:
        self._table, self._setup = table, Setup(trainer.type, trainer.options)
        self._made: Far | None = None

    def __call__(self) -> Far:
        if self._made is None:
            self._made = Far(started("learner", self._table, SERVICE, self._setup))
        return self._made

    def close(self) -> None:
        """End it if it was started."""
        if self._made is not None:
            self._made.close()
