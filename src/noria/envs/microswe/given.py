"""Tasks of real functions from a file, as `noria tasks make functions` writes them: one JSON object per line.

| key | what it is |
|---|---|
| `split` | "train", "heldout" or "unseen" |
| `package`, `function` | where the function is from, and its name |
| `kind`, `line` | the mutation, and the line of the file that it changed, from 1 |
| `app`, `gold` | the file with the bug and without; one line differs |
| `calls`, `spare` | [[arguments as Python literals], result as a literal]: shown by tests, and kept back |
| `wrong` | [line, text]: edits of `app` that leave it broken |
"""

from __future__ import annotations

import ast
import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.microswe.plain import plain
from noria.envs.microswe.tasks import APP, SYSTEM, TOOLS, call_text, test_file

Calls = tuple[tuple[tuple[str, ...], str], ...]
_MAX_ROWS = 10**6


class Row(Checked):
    """One line of the file."""

    split: Split
    package: str
    function: str = Field(pattern=r"^[a-zA-Z]\w*$")
    kind: str
    line: int = Field(ge=2)
    app: str = Field(max_length=4000)
    gold: str = Field(max_length=4000)
    calls: Calls = Field(min_length=1, max_length=8, strict=False)
    spare: Calls = Field(default=(), max_length=64, strict=False)
    wrong: tuple[tuple[int, str], ...] = Field(min_length=1, strict=False)


def load(path: str) -> Mapping[Split, tuple[Task, ...]]:
    """The tasks of a file by split, without repeats.

    Raises:
        UserError: no such file, or a line of it is no task of this world.
    """
    found: dict[Split, dict[str, Task]] = {"train": {}, "heldout": {}, "unseen": {}}
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise UserError(
            f"env path must be a file of tasks: got {path!r}, {fault} - make one: see docs/swe.md"
        ) from fault
    for number, text in enumerate(lines[:_MAX_ROWS], 1):
        try:
            task = _task(Row.model_validate_json(text))
        except (ValidationError, ValueError, SyntaxError, MemoryError, RecursionError) as fault:
            said = str(fault).split("\n", 2)
            raise UserError(
                f"env path must hold one task per line: got {path}, line {number}: {' '.join(said[:2])} - make it anew"
            ) from fault
        found[task.split].setdefault(task.id, task)
    return {split: tuple(tasks.values()) for split, tasks in found.items()}


def draw(tasks: Sequence[Task], split: Split, n: int, seed: int) -> list[Task]:
    """`n` of the tasks at most, in an order that belongs to the seed; a longer list starts with the shorter one.

    Raises:
        UserError: there is none.
    """
    if not tasks:
        raise UserError(f"env path must hold tasks of the split {split}: got none - make more, or name another file")
    order = list(range(len(tasks)))
    random.Random(f"functions/{split}/{seed}").shuffle(order)
    return [tasks[i] for i in order[:n]]


def _task(row: Row) -> Task:
    if not (plain(row.app) and plain(row.gold)):
        raise ValueError("its code must be one plain function")
    if len(row.app.split("\n")) != len(row.gold.split("\n")):
        raise ValueError("app and gold must have the same number of lines")
    data: dict[str, Any] = {
        "package": row.package, "kind": row.kind, "line": row.line, "names": {"F": row.function},
        "app": row.app, "gold": row.gold, "wrong": [list(one) for one in row.wrong],
    }  # fmt: skip
    calls = [call_text(row.function, _values(args)) for args, _ in row.calls]
    data["calls"] = calls
    data["tests"] = test_file(row.function, calls, [ast.literal_eval(want) for _, want in row.calls])
    spare = [call_text(row.function, _values(args)) for args, _ in row.spare]
    data["unseen_tests"] = test_file(row.function, spare, [ast.literal_eval(want) for _, want in row.spare])
    digest = hashlib.sha256(json.dumps([row.app, data["tests"]]).encode()).hexdigest()[:10]
    prompt = f"Fix {row.function} in {APP}."
    return Task(f"microswe-{row.split}-{digest}", "microswe", SYSTEM, prompt, TOOLS, data, row.split)


def _values(texts: Sequence[str]) -> tuple[Any, ...]:
    return tuple(ast.literal_eval(text) for text in texts)
