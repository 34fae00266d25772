"""Analysed pairs for the report: both trajectories turn by turn, key actions at their place in the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from markupsafe import Markup

from noria.core.codec import read_jsonl
from noria.core.errors import PolicyError, UserError
from noria.core.store import Run
from noria.core.types import Analysis, KeyAction, Pair, Trajectory, Turn
from noria.stages.models import resolve_model
from noria.tokens.calls import parse
from noria.web.picture import clean

#: Pairs shown per world and round.
SHOWN = 12
#: Characters of one message or observation that are shown.
LONGEST = 4000

Decode = Callable[[Sequence[int]], str]
_PIECE = re.compile(r"<think>.*?(?:</think>|\Z)|<call name=\"[A-Za-z_][\w-]*\">.*?(?:</call>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mark:
    """A key action as shown: evidence in counts, `raised` tells the direction."""

    number: int
    kind: str
    why: str
    confidence: float
    before: str
    after: str
    raised: bool
    turn: int


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a message: `kind` is think, call or answer. `runs` are (text, number of the mark or 0)."""

    kind: str
    name: str
    runs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn; `marks` are the key actions in it, `whole` the one that covers all of it, or 0."""

    number: int
    parts: tuple[Part, ...]
    observation: str
    marks: tuple[Mark, ...]
    whole: int


@dataclass(frozen=True, slots=True)
class Side:
    """One trajectory of a pair."""

    title: str
    id: str
    source: str
    ending: str
    solved: bool
    turns: tuple[TurnView, ...]


@dataclass(frozen=True, slots=True)
class PairView:
    """One analysed pair."""

    id: str
    world: str
    prompt: str
    divergence: int
    replays: int
    budget: int
    marks: int
    strongest: str
    sides: tuple[Side, Side]
    picture: Markup | None


def read_pairs(run: Run, number: int, decode: Decode | None) -> dict[str, list[PairView]]:
    """The analysed pairs of a round by world, at most `SHOWN` of each; {} before the analysis is done.

    Raises:
        ValueError: the files were written by another version.
    """
    analysed, paired = f"round-{number}/analyze", f"round-{number}/pair"
    if not (run.done(analysed) and run.done(paired)):
        return {}
    analyses = {a.task_id: a for a in read_jsonl(run.folder(analysed) / "analyses.jsonl", Analysis)}
    out: dict[str, list[PairView]] = {}
    for pair in read_jsonl(run.folder(paired) / "pairs.jsonl", Pair):
        analysis = analyses.get(pair.task.id)
        if analysis is None or (analysis.right_id, analysis.wrong_id) != (pair.right.id, pair.wrong.id):
            continue
        views = out.setdefault(pair.task.world, [])
        if len(views) < SHOWN:
            views.append(view(pair, analysis, run.folder(analysed), decode))
    return out


def load_decode(run: Run, model: str) -> Decode | None:
    """Token ids to text with the run's own tokenizer, so that marks inside a message find their words.

    None where no tokenizer can be found: marks then cover the whole turn.
    """
    from tokenizers import Tokenizer

    folders = [path.parent for path in islice(sorted(run.path.glob("round-*/*/tokenizer.json")), 1)]
    try:
        folders.append(resolve_model(model))
    except UserError:
        pass
    for folder in folders:
        if (folder / "tokenizer.json").is_file():
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False))
    return None


def view(pair: Pair, analysis: Analysis, folder: Path, decode: Decode | None) -> PairView:
    """A pair and its analysis side by side; the flowchart is read from the artifact's folder."""
    picture = folder / f"{pair.task.id.replace('/', '_')}.svg"
    label = f"Flowchart of {pair.task.id}: the right branch and the wrong branch"
    return PairView(
        id=pair.task.id,
        world=pair.task.world,
        prompt=pair.task.prompt,
        divergence=analysis.divergence + 1,
        replays=analysis.replays,
        budget=analysis.budget,
        marks=len(analysis.marks),
        strongest=_strongest(analysis.marks),
        sides=(
            _side("Right", pair.right, analysis, decode),
            _side("Wrong", pair.wrong, analysis, decode),
        ),
        picture=clean(picture.read_text(encoding="utf-8"), label) if picture.is_file() else None,
    )


def _strongest(marks: Sequence[KeyAction]) -> str:
    """Evidence of the mark that moved success most, "" without marks."""
    if not marks:
        return ""
    top = max(marks, key=lambda mark: abs(mark.shift))
    return f"{top.solved_before} of {top.tried_before} → {top.solved_after} of {top.tried_after}"


def _side(title: str, trajectory: Trajectory, analysis: Analysis, decode: Decode | None) -> Side:
    numbered = [(i, m) for i, m in enumerate(analysis.marks, start=1) if m.trajectory_id == trajectory.id]
    ending = "solved" if trajectory.solved else trajectory.outcome.reason or trajectory.stop
    turns = []
    for k, turn in enumerate(trajectory.turns):
        here = [(i, m) for i, m in numbered if m.turn == k]
        turns.append(_turn(k, turn, trajectory.record.ids, here, decode))
    return Side(title, trajectory.id, trajectory.source, ending, trajectory.solved, tuple(turns))


def _turn(
    k: int, turn: Turn, ids: Sequence[int], marks: Sequence[tuple[int, KeyAction]], decode: Decode | None
) -> TurnView:
    spans, whole = [], 0
    for i, mark in marks:
        span = char_span(turn, mark, ids, decode)
        if span is None:
            whole = whole or i
        else:
            spans.append((*span, i))
    return TurnView(
        number=k + 1,
        parts=split_message(turn.message, sorted(spans)),
        observation=_cut(turn.observation),
        marks=tuple(_mark(i, m) for i, m in marks),
        whole=whole,
    )


def char_span(turn: Turn, mark: KeyAction, ids: Sequence[int], decode: Decode | None) -> tuple[int, int] | None:
    """Characters of the turn's message that the mark covers; None if that is all of it, or can't be told."""
    if decode is None or (mark.token_start <= turn.token_start and mark.token_end >= turn.token_end):
        return None
    start = len(decode(ids[turn.token_start : mark.token_start]))
    text = decode(ids[turn.token_start : mark.token_end])
    said = turn.message[: len(text)]
    if not text.startswith(said) or start >= len(said):
        return None  # the tokenizer isn't the one that the trajectory was sampled with
    return (start, len(said)) if (start, len(said)) != (0, len(turn.message)) else None


def split_message(message: str, spans: Sequence[tuple[int, int, int]] = ()) -> tuple[Part, ...]:
    """Think blocks, calls and the rest in order; `spans`: sorted (start, end, mark's number) in characters."""
    out: list[Part] = []
    at = 0
    for found in [*_PIECE.finditer(message), None]:
        start, end = found.span() if found else (len(message), len(message))
        if message[at:start].strip():
            out.append(Part("answer", "", _runs(message, at, start, spans)))
        if found and found[0].startswith("<think>"):
            close = end - len("</think>") if found[0].endswith("</think>") else end
            out.append(Part("think", "", _runs(message, start + len("<think>"), close, spans)))
        elif found:
            out.append(_call(message, start, end, spans))
        at = end
    return tuple(out)


def _call(message: str, start: int, end: int, spans: Sequence[tuple[int, int, int]]) -> Part:
    """A call in readable form, wholly marked if a mark touches it; as it stands if it is malformed."""
    try:
        (call,) = parse(message[start:end]).calls
    except (PolicyError, ValueError):
        return Part("answer", "", _runs(message, start, end, spans))
    number = next((i for a, b, i in spans if a < end and b > start), 0)
    text = ", ".join(
        f"{key}={value!r}" if "\n" not in value else f"{key}=\n{value}" for key, value in call.args.items()
    )
    return Part("call", call.name, ((_cut(text), number),))


def _runs(message: str, start: int, end: int, spans: Sequence[tuple[int, int, int]]) -> tuple[tuple[str, int], ...]:
    out, at = [], start
    for a, b, number in spans:
        a, b = max(a, at), min(b, end)
        if a < b:
            out += [(message[at:a], 0), (message[a:b], number)]
            at = b
    out.append((message[at:end], 0))
    return tuple((_cut(text), number) for text, number in out if text)


def _mark(number: int, mark: KeyAction) -> Mark:
    return Mark(
        number, mark.kind, mark.why, mark.confidence, f"{mark.solved_before} of {mark.tried_before}",
        f"{mark.solved_after} of {mark.tried_after}", mark.shift > 0, mark.turn + 1,
    )  # fmt: skip


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + f" … ({len(text) - LONGEST} characters more)"
