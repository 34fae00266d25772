"""Where teachers score: in this process, or as a service behind an executor, in a process or a Ray actor of their own.

    bank ── Ask (which model, rows, temperature) ──► host ── Answer (log-probabilities, hidden states) ──► bank

A host holds one model at a time. An answer depends on its question alone, so a host that dies loses nothing: what it
owed is asked again of its successor. Questions are put before answers are wanted, so that a host of its own scores
while the learner does what needs no teacher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from noria.core.errors import EngineError, UserError
from noria.core.memory import keep_freed_memory
from noria.core.protocols import Executor
from noria.core.recipe_tables import ExecutorTable, TrainerTable
from noria.models.weights import read
from noria.stages.snapshot import as_array, as_tensor
from noria.trainers.generate import continued
from noria.trainers.local import LocalTrainer
from noria.trainers.rows import Row

SERVICE = f"{__name__}.ScoringService"
#: Seconds after which a worker that says nothing is taken for dead.
PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model to be held: `key` tells it apart, `shape` is a folder of its architecture, and its weights are in
    `folder`, or in `data` (safetensors) where they are nowhere on disk."""

    key: tuple[int, int]
    shape: str | None
    folder: str | None
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """What is to be said after each row instead of scoring it; row i is sampled under `seed + i`."""

    max_new_tokens: int
    end_ids: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Rows (ids and mask are read) for one model: their log-probabilities, with `states` the hidden states too."""

    id: int
    model: Wanted
    rows: tuple[Row, ...]
    temperature: float
    states: bool = False
    text: Text | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Log-probabilities [S] of each row, hidden states [n, D] at its trained tokens, or the tokens said after it.

    `scale` and `chunk_tokens` are of the model's head, `loads` counts the weights that had to be loaded; `fault` says
    why there is nothing, `of_user` that the recipe or its models are the reason.
    """

    id: int
    logp: Sequence[NDArray[np.float64]] = ()
    states: Sequence[Any] = ()
    said: Sequence[list[int]] = ()
    scale: float = 1.0
    chunk_tokens: int = 1024
    loads: int = 0
    fault: str = ""
    of_user: bool = False


class Weighed(Protocol):
    """What a host needs to know of a teacher whose weights it holds."""

    folder: Path | None

    def data(self) -> bytes: ...


class Holder:
    """One model, replaced by the next that is asked for.

    Args:
        scorer: a model to begin with; None = the first question builds it.
        make: builds a model from a folder; None = all are of the scorer's shape.
        home: the folder that the scorer was built from.
    """

    def __init__(
        self,
        scorer: LocalTrainer | None = None,
        make: Callable[[Path], LocalTrainer] | None = None,
        home: Path | None = None,
    ) -> None:
        self.scorer, self.make, self._shape = scorer, make, _shape(home)
        self._key: tuple[int, int] | None = None

    def answer(self, ask: Ask) -> Answer:
        """What the wanted model says of the rows.

        Raises:
            UserError, ValueError: its weights are missing, or of another shape.
        """
        loads = self._hold(ask.model)
        scorer = self.scorer
        assert scorer is not None
        head = scorer.head()
        told = Answer(ask.id, scale=head.scale, chunk_tokens=head.chunk_tokens, loads=loads)
        if ask.text is not None:
            text, model = ask.text, scorer.model
            said = [
                continued(model, row.ids.tolist(), text.max_new_tokens, text.end_ids, ask.temperature, text.seed + i)
                for i, row in enumerate(ask.rows)
            ]
            return replace(told, said=said)
        if not ask.states:
            return replace(told, logp=scorer.score(ask.rows, ask.temperature))
        logp, states = scorer.score_states(ask.rows, ask.temperature)
        return replace(told, logp=logp, states=states)

    def _hold(self, model: Wanted) -> int:
        if self._key == model.key:
            return 0
        self._key = None
        near = model.folder or model.shape
        folder = None if near is None else Path(near)
        in_parts = model.folder is not None and not (Path(model.folder) / "model.safetensors").is_file()
        anew = self.make is not None and folder is not None and (in_parts or _shape(folder) != self._shape)
        if anew:
            assert self.make is not None and folder is not None
            self.scorer = None  # before the next one is built, or two would be held
            self.scorer, self._shape = self.make(folder), _shape(folder)
        if not anew or model.folder is None:
            assert self.scorer is not None
            data = read(Path(model.folder)) if model.folder is not None else model.data
            assert data is not None, "a model that is in no folder comes with its weights"
            self.scorer.load_weights(data)
        self._key = model.key
        return 1


class Host(Protocol):
    """Takes questions and gives their answers, each once. `vocabulary` is the length of the head, where it is known."""

    def begin(self, ask: Ask, source: Weighed) -> None: ...
    def finish(self, id: int) -> Answer: ...
    def vocabulary(self) -> int | None: ...


class Here:
    """Answers in this process, when the answer is wanted."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self._asked: dict[int, tuple[Ask, Weighed]] = {}

    def begin(self, ask: Ask, source: Weighed) -> None:
        self._asked[ask.id] = (ask, source)

    def finish(self, id: int) -> Answer:
        ask, source = self._asked.pop(id)
        if ask.model.folder is None:
            ask = replace(ask, model=replace(ask.model, data=source.data()))
        return self.holder.answer(ask)

    def vocabulary(self) -> int | None:
        scorer = self.holder.scorer
        return None if scorer is None else len(scorer.head().load())


class Elsewhere:
    """Answers of services that an executor runs; route r belongs to service r modulo their number.

    Raises (from `finish`):
        EngineError: services died, or were silent, more often than `retries` allows, or one could not answer.
        UserError: a teacher's files cannot be what the recipe says they are.
    """

    def __init__(self, executor: Executor, retries: int) -> None:
        self.executor, self.retries, self.deaths = executor, retries, 0
        self._owed: dict[int, tuple[Ask, Weighed]] = {}
        self._told: dict[int, Answer] = {}
        self._held: dict[int, tuple[int, int]] = {}

    def begin(self, ask: Ask, source: Weighed) -> None:
        self._owed[ask.id] = (ask, source)
        try:
            self._send(ask, source)
        except EngineError:
            self._revive(self._of(ask))

    def finish(self, id: int) -> Answer:
        while id not in self._told:
            worker = self._of(self._owed[id][0])
            try:
                answers = self.executor.receive(worker, PATIENCE_S)
                if not answers:
                    raise EngineError(f"a teachers' worker said nothing for {PATIENCE_S:.0f} s")
                for answer in answers:
                    if self._owed.pop(answer.id, None) is not None:
                        self._told[answer.id] = answer
            except EngineError:
                self._revive(worker)
        answer = self._told.pop(id)
        if answer.fault:
            raise (UserError if answer.of_user else EngineError)(f"a teacher could not score: {answer.fault}")
        return replace(answer, states=[as_tensor(*parts) for parts in answer.states])

    def vocabulary(self) -> int | None:
        return None

    def forget(self) -> None:
        """Begin a phase: let go of every question (what is still said to one is thrown away) and of past deaths."""
        self._owed.clear()
        self._told.clear()
        self.deaths = 0

    def close(self) -> None:
        self.executor.close()

    def _of(self, ask: Ask) -> int:
        return ask.model.key[0] % self.executor.size

    def _send(self, ask: Ask, source: Weighed) -> None:
        """Weights that are in no folder travel with the first question to them."""
        worker = self._of(ask)
        if ask.model.folder is None and self._held.get(worker) != ask.model.key:
            ask = replace(ask, model=replace(ask.model, data=source.data()))
        self._held[worker] = ask.model.key
        self.executor.send(worker, ask)

    def _revive(self, worker: int) -> None:
        """Start a dead service again and ask it everything that it owed."""
        while True:
            self.deaths += 1
            if self.deaths > self.retries:
                raise EngineError(f"a teachers' worker died {self.deaths} times in one phase")
            self.executor.restart(worker)
            self._held.pop(worker, None)
            try:
                for ask, source in list(self._owed.values()):
                    if self._of(ask) == worker:
                        self._send(ask, source)
                return
            except EngineError:
                continue


@dataclass(frozen=True, slots=True)
class Setup:
    """What a scoring service is started with: the trainer's table of a recipe."""

    type: str
    options: Mapping[str, Any]


class ScoringService:
    """A holder that runs in a worker (`core.protocols.Service`)."""

    def __init__(self, setup: Setup) -> None:
        keep_freed_memory()
        table = TrainerTable(type=setup.type, **setup.options)
        config, module = table.config(), table.module()
        torch.set_num_threads(config.threads)
        self.holder = Holder(make=lambda folder: module.build_scorer(config, folder))
        self._asked: list[Ask] = []

    def receive(self, message: Any) -> None:
        self._asked.append(message)

    def busy(self) -> bool:
        return bool(self._asked)

    def work(self) -> list[Any]:
        """Answers the oldest question."""
        if not self._asked:
            return []
        ask = self._asked.pop(0)
        try:
            answer = self.holder.answer(ask)
        except (UserError, EngineError, ValueError, OSError) as fault:
            return [Answer(ask.id, fault=str(fault), of_user=isinstance(fault, UserError))]
        return [replace(answer, states=[as_array(states) for states in answer.states])]

    def close(self) -> None:
        """There is nothing to close."""


def started(field: str, table: ExecutorTable, service: str, setup: Setup) -> Executor:
    """The executor of the table `field` of a recipe, with its services.

    Raises:
        UserError: the table cannot be had here, as where a cluster is too small; names the field in it.
    """
    try:
        made: Executor = table.module().build(table.config(), service, setup)
    except UserError as fault:  # an executor speaks of itself under the name of the table for rollouts
        raise UserError(str(fault).replace("executor.", f"{field}.")) from fault
    return made


class Scorers:
    """The services of a run, started when a phase first asks for them."""

    def __init__(self, table: ExecutorTable, trainer: TrainerTable, retries: int = 2) -> None:
        self._table, self._setup, self._retries = table, Setup(trainer.type, trainer.options), retries
        self._made: Elsewhere | None = None

    def __call__(self) -> Elsewhere:
        if self._made is None:
            self._made = Elsewhere(started("scorers", self._table, SERVICE, self._setup), self._retries)
        return self._made

    def close(self) -> None:
        """End those that were started."""
        if self._made is not None:
            self._made.close()


def _shape(folder: Path | None) -> bytes | None:
    """What tells models of different shapes apart."""
    file = None if folder is None else folder / "config.json"
    return file.read_bytes() if file is not None and file.is_file() else None
