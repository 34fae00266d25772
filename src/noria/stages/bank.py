"""The bank of teachers that score tokens: loaded on demand, in teacher order inside a batch, one resident at a time.

What stays of a teacher after it has scored are numbers per token, and, where a loss reads the whole vocabulary, its
hidden states at the tokens that carry loss. Its head is loaded again when such a loss runs; one head is held at a time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from noria.losses.states import Head, block_rows
from noria.losses.tops import pack, top_head
from noria.stages.learning import Learner
from noria.stages.scoring import Answer, Ask, Here, Holder, Host, Text, Wanted
from noria.teachers.frozen import Frozen
from noria.trainers.local import LocalTrainer
from noria.trainers.rows import Row, Scored, trained_positions

#: Log-probabilities [S] of a row, and states at its trained tokens.
Scores = tuple[NDArray[np.float64], torch.Tensor | None]

#: Numbers of questions and of models, each used once in a process.
_NUMBERS = itertools.count()
#: The head that was read last, by its folder.
_READ: dict[Path, torch.Tensor] = {}
#: Names under which a checkpoint keeps its head; the second where it is tied to the embedding.
HEADS = ("lm_head.weight", "model.embed_tokens.weight")


class Source(Protocol):
    """Where a teacher's weights come from; see `teachers/`."""

    folder: Path | None
    gold: bool

    def tick(self, step: int, student: Callable[[], Mapping[str, Any]]) -> None: ...
    def data(self) -> bytes: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any]) -> None: ...


@runtime_checkable
class Remote(Protocol):
    """A teacher whose weights are on a server: it scores token ids itself, see `teachers.model`."""

    def score(self, rows: Sequence[Sequence[int]], top: int = 0) -> Sequence[Any]: ...
    def check(self, renderer: Any, longest: int, top: int = 0) -> None: ...
    def data(self) -> bytes: ...


class ModelBank:
    """Teachers by route index. `loads` counts how often each was loaded; only one set of weights is held.

    Args:
        scorer: where teachers score: a host, or a model of their shape in this process, whose weights are replaced.
        teachers: the checkpoint, or the source, of each route.
        temperature: of the teachers, by which their logits are divided.
        reference: the checkpoint that `logp_ref` is of.
        reference_temperature: of the reference, which is compared with the policy: that which the policy samples at.
        shares: weight of each route in every sample, made to sum to 1; None = each row has its own route's alone.
        student: whose weights moving teachers follow.
        make: builds a model from a folder, for teachers of another shape than the scorer's.
        home: the folder that the scorer was built from, of the shape of moving teachers; needed with `make`.
    """

    def __init__(
        self,
        scorer: LocalTrainer | Host,
        teachers: Sequence[Path | Source],
        temperature: float = 1.0,
        reference: Path | None = None,
        shares: Sequence[float] | None = None,
        student: Learner | None = None,
        make: Callable[[Path], LocalTrainer] | None = None,
        home: Path | None = None,
        reference_temperature: float = 1.0,
    ) -> None:
        self.host: Host = Here(Holder(scorer, make, home)) if isinstance(scorer, LocalTrainer) else scorer
        self.temperature, self.student = temperature, student
        self.sources: list[Source] = [Frozen(t) if isinstance(t, Path) else t for t in teachers]
        self.shares = None if shares is None else [share / sum(shares) for share in shares]
        self.reference = None if reference is None else len(self.sources)
        self.reference_temperature = reference_temperature
        if reference is not None:
            self.sources.append(Frozen(reference))
        self.loads: Counter[int] = Counter()
        self.head_loads: Counter[int] = Counter()
        self._home = None if home is None else str(home)
        self._keys = [next(_NUMBERS) for _ in self.sources]
        self._head: tuple[int, torch.Tensor] | None = None
        self._heads: dict[int, Head] = {}
        self._ticks = 0
        self._begun: Begun | None = None

    def tick(self) -> None:
        """Let moving teachers follow the student; once per step, before it is scored."""
        for route, source in enumerate(self.sources):
            if source.folder is None:
                assert self.student is not None
                source.tick(self._ticks, self._student_tensors)
                self._keys[route], self._head = next(_NUMBERS), None
        self._ticks += 1

    def begin(self, rows: Sequence[Row], states: bool = False) -> None:
        """Ask for what `score` of these very rows will want; the answers are fetched there."""
        self._begun = self._asked(rows, states)

    def score(self, rows: Sequence[Row], states: bool = False, top: int | None = None) -> list[Row]:
        """Fill `logp_teacher` of every row from its own route's teacher, or the weighted sum over all of them.

        With `states` the hidden states at the trained tokens are kept too; of a teacher on a server its `top` likeliest
        tokens there. Teachers are loaded in order, each once. Returns the rows that a server could not score.
        """
        begun, self._begun = self._begun, None
        if begun is None or not begun.serves(rows, states):
            begun = self._asked(rows, states)
        unknown: dict[int, Row] = {}
        for row in rows:
            row.scored = []
            if self.shares is not None:
                row.logp_teacher = np.zeros(len(row))
        for part in begun.parts:
            share = 1.0 if self.shares is None else self.shares[part.route]
            for row, read, scores in zip(part.rows, part.seen, self._scores(part, states, top or 0), strict=True):
                if scores is None:
                    unknown[id(row)] = row
                    continue
                logp, kept = scores
                own = logp if row.seen is None else np.where(row.mask, logp[row.seen.at], 0.0)
                row.logp_teacher = own if self.shares is None else row.logp_teacher + share * own
                assert read.mask.sum() == row.mask.sum()
                if kept is not None:
                    row.scored.append(Scored(self._heads[part.route], kept, trained_positions(row), share))
        return list(unknown.values())

    def _asked(self, rows: Sequence[Row], states: bool) -> Begun:
        """Every teacher's part of the rows, in order of the teachers, asked for where the teacher has weights."""
        routes = sorted({row.route for row in rows})
        if self.shares is None:
            of = {route: [row for row in rows if row.route == route] for route in routes}
        else:
            of = {route: list(rows) for route, share in enumerate(self.shares) if share > 0}
        parts = []
        for route, mine in of.items():
            seen = [_as_seen(row) for row in mine]
            far = isinstance(self.sources[route], Remote)
            asked = -1 if far else self._ask(route, seen, self.temperature, states)
            parts.append(Part(route, mine, seen, asked))
        return Begun(list(rows), states, parts)

    def _ask(
        self, route: int, rows: Sequence[Row], temperature: float, states: bool = False, text: Text | None = None
    ) -> int:
        """Put a question to a teacher that has weights; returns its number."""
        source = self.sources[route]
        folder = None if source.folder is None else str(source.folder)
        model = Wanted((route, self._keys[route]), folder or self._home, folder)
        ask = Ask(next(_NUMBERS), model, tuple(map(_bare, rows)), temperature, states, text)
        self.host.begin(ask, source)
        return ask.id

    def _finish(self, route: int, asked: int) -> Answer:
        answer = self.host.finish(asked)
        self.loads[route] += answer.loads
        return answer

    def _scores(self, part: Part, states: bool, top: int) -> list[Scores | None]:
        """Of each row by one teacher the log-probabilities [S] and, with `states`, its states; None = unknown."""
        route, name = part.route, f"route {part.route}"
        source = self.sources[route]
        if isinstance(source, Remote):
            vocabulary = self._vocabulary()
            self._heads[route] = top_head(name, vocabulary)
            answers = source.score([row.ids.tolist() for row in part.seen], top if states else 0)
            return [
                _of_server(row, scores, vocabulary, top if states else 0)
                for row, scores in zip(part.seen, answers, strict=True)
            ]
        answer = self._finish(route, part.asked)
        if not states:
            return [(logp, None) for logp in answer.logp]
        self._heads[route] = Head(
            name, TeacherHead(self, route), self.temperature, answer.scale, chunk_tokens=answer.chunk_tokens
        )
        return list(zip(answer.logp, answer.states, strict=True))

    def _vocabulary(self) -> int:
        found = self.host.vocabulary() if self.student is None else len(self.student.head().load())
        assert found is not None
        return found

    def begin_reference(self, rows: Sequence[Row]) -> None:
        """Ask for what `refer` of these very rows will want."""
        assert self.reference is not None
        asked = self._ask(self.reference, rows, self.reference_temperature)
        self._begun = Begun(list(rows), False, [Part(self.reference, list(rows), [], asked)])

    def refer(self, rows: Sequence[Row]) -> None:
        """Fill `logp_ref` of every row from the frozen reference."""
        assert self.reference is not None
        begun = self._begun
        if begun is None or not begun.serves(rows, False) or begun.parts[0].route != self.reference:
            self.begin_reference(rows)
            begun = self._begun
        assert begun is not None
        self._begun = None
        answer = self._finish(self.reference, begun.parts[0].asked)
        for row, logp in zip(rows, answer.logp, strict=True):
            row.logp_ref = logp

    def head(self, route: int) -> torch.Tensor:
        """The head [V, D] of a route's teacher; the one held is not loaded again."""
        if self._head is None or self._head[0] != route:
            self._head = (route, _head_of(self.sources[route]))
            self.head_loads[route] += 1
        return self._head[1]

    def generate(
        self, route: int, rows: Sequence[Row], max_new: int, end_ids: Sequence[int], seed: int
    ) -> list[list[int]]:
        """What the route's teacher says after each row."""
        prompts = [Row.plain(row.ids, np.zeros_like(row.ids)) for row in rows]
        asked = self._ask(route, prompts, self.temperature, text=Text(max_new, tuple(end_ids), seed))
        return list(self._finish(route, asked).said)

    def overlap(self, rows: Sequence[Row], k: int = 16) -> float:
        """|TopK_T ∩ TopK_S| / K, the mean over the rows' trained tokens: how alike both see the next token."""
        assert self.student is not None
        shared = []
        mine = self.student.head()
        for row, hidden in zip(rows, self.student.states(rows), strict=True):
            for scored in row.scored[:1]:
                pairs = ((mine, hidden), (scored.head, scored.hidden))
                ours, theirs = (_likeliest(head, states, k) for head, states in pairs)
                shared.append((ours[:, :, None] == theirs[:, None, :]).any(-1).float().mean(-1))
        return float(torch.cat(shared).mean()) if shared else 0.0

    def state(self) -> dict[str, Any]:
        """What a continued run must restore: where the moving teachers stand."""
        return {"ticks": self._ticks, "sources": [source.state() for source in self.sources]}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._ticks = int(state["ticks"])
        for source, saved in zip(self.sources, state["sources"], strict=True):
            source.restore(saved)
        self._keys = [next(_NUMBERS) for _ in self.sources]
        self._head = self._begun = None

    def _student_tensors(self) -> Mapping[str, Any]:
        from safetensors.torch import load

        assert self.student is not None
        return load(self.student.weights())


@dataclass(frozen=True, slots=True)
class Part:
    """One teacher's share of a batch: its rows, what it reads of each, and the number of the question (-1 = none)."""

    route: int
    rows: list[Row]
    seen: list[Row]
    asked: int


@dataclass(frozen=True, slots=True)
class Begun:
    """Questions that were put for these rows."""

    rows: list[Row]
    states: bool
    parts: list[Part]

    def serves(self, rows: Sequence[Row], states: bool) -> bool:
        """Whether the answers are what these rows want."""
        return self.states == states and len(rows) == len(self.rows) and all(map(is_, rows, self.rows))


@dataclass(frozen=True, slots=True)
class TeacherHead:
    """Gives the head of a route's teacher; where it is sent to another process, that one reads it from its folder."""

    bank: ModelBank
    route: int

    def __call__(self) -> torch.Tensor:
        return self.bank.head(self.route)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        folder = self.bank.sources[self.route].folder
        return (HeadOf, (self.bank.head(self.route), None)) if folder is None else (HeadOf, (None, folder))


@dataclass(frozen=True, slots=True)
class HeadOf:
    """Gives a head that came along, or that of a folder; one that was read is held until another is."""

    matrix: torch.Tensor | None
    folder: Path | None

    def __call__(self) -> torch.Tensor:
        if self.matrix is not None:
            return self.matrix
        assert self.folder is not None
        if self.folder not in _READ:
            _READ.clear()
            _READ[self.folder] = _head_of(Frozen(self.folder))
        return _READ[self.folder]


def _bare(row: Row) -> Row:
    """What a teacher reads of a row."""
    return Row.plain(row.ids, row.mask, row.group, row.route)


def _of_server(row: Row, scores: Any, vocabulary: int, top: int) -> Scores | None:
    """What a server said of a row: log-probabilities [S], and the likeliest tokens at the trained ones as states."""
    if scores is None:
        return None
    kept = pack([scores.top[at] for at in trained_positions(row)], top, vocabulary) if top else None
    return np.where(row.mask, scores.logp, 0.0), kept


def _likeliest(head: Head, hidden: torch.Tensor, k: int) -> torch.Tensor:
    """The k likeliest tokens [N, k] after states [N, D], from the logits of a few rows at a time."""
    matrix = head.load().detach()
    parts = torch.split(hidden, block_rows(head, len(matrix)))
    return torch.cat([head.logits(part, matrix).topk(k, -1).indices for part in parts])


def _as_seen(row: Row) -> Row:
    """The row as its teacher reads it: the same tokens marked, wherever they stand there."""
    if row.seen is None:
        return row
    mask = np.zeros(len(row.seen.ids), dtype=np.int64)
    mask[row.seen.at[row.mask]] = 1
    return Row.plain(row.seen.ids.tolist(), mask.tolist(), row.group, row.route)


def _head_of(source: Source) -> torch.Tensor:
    from safetensors import safe_open
    from safetensors.torch import load

    if source.folder is None or not (source.folder / "model.safetensors").is_file():
        tensors = load(source.data())
        return next(tensors[name] for name in HEADS if name in tensors)
    with safe_open(str(source.folder / "model.safetensors"), framework="pt") as file:
        names = set(file.keys())
        found: torch.Tensor = file.get_tensor(next(name for name in HEADS if name in names))
    return found
