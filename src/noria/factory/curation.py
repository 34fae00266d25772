"""Keeps tasks that are new: no exact or near duplicates, nothing of evaluation sets, not too many of one function."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noria.core.errors import UserError
from noria.core.minhash import MinHash
from noria.core.near import NearIndex
from noria.core.shingles import Hashes, of_text

#: Likeness from which two tasks are the same, and tokens of a shingle.
THRESHOLD, SIZE = 0.9, 4
#: Where rows have their change and their statement: ours, those of SWE-bench and SWE-smith, tasks of worlds.
CHANGES, STATEMENTS = ("patch",), ("statement", "problem_statement", "instruction", "prompt")


@dataclass(frozen=True, slots=True)
class Held:
    """A task of an evaluation set: its change as a unified diff, in either direction, and its text; "" = not known."""

    patch: str
    statement: str


class Curation:
    """Decides about proven tasks in their order. `capacity` tasks at most are compared."""

    def __init__(self, capacity: int, per_target: int, evaluation: Iterable[Held] = ()) -> None:
        """`evaluation`: tasks that must not come back, neither their change nor their statement."""
        self._per_target = per_target
        self._targets: Counter[tuple[str, str]] = Counter()
        self._exact: set[str] = set()
        self._near = NearIndex(MinHash(THRESHOLD), capacity)
        held = list(evaluation)
        self._held = [
            _index([of_text(_changed(each.patch), SIZE, "code") for each in held if each.patch]),
            _index([of_text(each.statement, SIZE) for each in held if each.statement]),
        ]

    def crowded(self, repo: str, target: str) -> bool:
        """Whether the function has all the tasks that one may have: it need not be tried again."""
        return self._targets[repo, target] >= self._per_target

    def refuse(self, repo: str, target: str, patch: str, statement: str) -> str:
        """Why a task is not kept; "" keeps it, and it is known from then on."""
        if self.crowded(repo, target):
            return "enough bugs in this function"
        code = "\n".join(line for line in patch.split("\n") if not line.startswith("@@"))
        if code in self._exact:
            return "exact duplicate"
        asked = (of_text(_changed(patch), SIZE, "code"), of_text(statement, SIZE))
        for index, shingles in zip(self._held, asked, strict=True):
            if index.nearest(index.hasher(shingles)) is not None:
                return "like a task of an evaluation set"
        hashed = self._near.hasher(of_text(f"{code}\n{statement}", SIZE, "code"))
        if self._near.nearest(hashed) is not None:
            return "near duplicate"
        self._exact.add(code)
        self._near.add(hashed)
        self._targets[repo, target] += 1
        return ""


def read_evaluation(paths: Iterable[Path]) -> list[Held]:
    """Tasks of evaluation sets, one a line: a row of JSON, or else a text, which is taken for a statement.

    Raises:
        UserError: a file cannot be read, or a row has neither a change nor a statement.
    """
    found: list[Held] = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as fault:
            raise UserError(f"--decontaminate must name text files: {path}: {fault} - one task a line") from fault
        found += [_held(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    return found


def _held(line: str, where: str) -> Held:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return Held("", line)
    held = Held(_first(row, CHANGES), _first(row, STATEMENTS))
    if not held.patch and not held.statement:
        names = ", ".join((*CHANGES, *STATEMENTS))
        raise UserError(f"--decontaminate must hold tasks: {where} has none of {names} - name the fields so")
    return held


def _first(row: dict[str, Any], names: Sequence[str]) -> str:
    return next((row[name] for name in names if isinstance(row.get(name), str) and row[name].strip()), "")


def _changed(patch: str) -> str:
    """The lines of a patch without signs and places, the same for its reverse."""
    shown: list[str] = []
    run: list[str] = []
    for line in patch.split("\n"):
        if line.startswith(("+++", "---", "@@", "diff ", "index ", "\\")):
            continue
        if line[:1] in ("+", "-"):
            run.append(line[1:])
            continue
        shown += [*sorted(run), line[1:]]
        run = []
    return "\n".join([*shown, *sorted(run)])


def _index(shingles: Sequence[Hashes]) -> NearIndex:
    index = NearIndex(MinHash(THRESHOLD), max(1, len(shingles)))
    for each in shingles:
        index.add(index.hasher(each))
    return index
