"""Tasks of real functions from a file, as `noria tasks make microswe` writes them: one JSON object per line.

| key | what it is |
|---|---|
| `split` | "train", "heldout" or "unseen" |
| `package`, `function` | where the function is from, and its name |
| `kind`, `line` | the mutation, and the line of the file that it changed, from 1 |
| `app`, `gold` | the file with the bug and without: the function alone; that line differs, and one edit mends it |
| `calls`, `spare` | [[arguments as Python literals], result as a literal]: shown by tests, and kept back |
| `wrong` | [line, text]: edits of `app` that leave it broken |

A task's id is a digest of what it is, so a value is a literal that reads back as itself and is told in one way alone. A
set of several has no order that another process would keep.
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
from noria.core.errors import PolicyError, UserError
from noria.core.syntax import literal, parse
from noria.core.types import Split, Task
from noria.envs.microswe.edits import follow, read
from noria.envs.microswe.plain import plain
from noria.envs.microswe.tasks import APP, SYSTEM, TOOLS, call_text, test_file

Calls = tuple[tuple[tuple[str, ...], str], ...]
_MAX_ROWS = 10**6
#: What reading a row may raise, hostile literals included.
_FAULTS = (ValidationError, ValueError, TypeError, SyntaxError, MemoryError, RecursionError)


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
    wrong: tuple[tuple[int, str], ...] = Field(min_length=1, max_length=64, strict=False)


def load(path: str) -> Mapping[Split, tuple[Task, ...]]:
    """The tasks of a file by split, without repeats.

    Raises:
        UserError: no such file, it is empty, a line of it is no task of this world, or one lies in two splits.
    """
    found: dict[Split, dict[str, Task]] = {"train": {}, "heldout": {}, "unseen": {}}
    sides: dict[str, Split] = {}
    try:
        lines = Path(path).read_text("utf-8").rstrip("\n").split("\n")
    except (OSError, ValueError) as fault:
        raise UserError(
            f"env path must be a file of tasks: got {path!r}, {fault} - make one: see docs/worlds/microswe.md"
        ) from fault
    if len(lines) > _MAX_ROWS:
        raise UserError(f"env path must hold at most {_MAX_ROWS} tasks: got {path}, {len(lines)} lines - split it")
    if lines == [""]:
        raise UserError(f"env path must hold a task: got {path}, which is empty - see docs/worlds/microswe.md")
    for number, text in enumerate(lines, 1):
        try:
            task = _task(Row.model_validate_json(text))
            if sides.setdefault(task.id.rpartition("-")[2], task.split) != task.split:
                raise ValueError("it is in two splits")
        except _FAULTS as why:
            raise UserError(
                f"env path must hold one task per line: got {path}, line {number}: {_said(why)} - make it anew"
            ) from why
        found[task.split].setdefault(task.id, task)
    return {split: tuple(tasks.values()) for split, tasks in found.items()}


def short(found: Mapping[Split, tuple[Task, ...]], longest: int) -> Mapping[Split, tuple[Task, ...]]:
    """Those of `longest` lines at most.

    Raises:
        UserError: there is none, neither for training nor held out.
    """
    kept = {
        split: tuple(task for task in tasks if task.data["gold"].count("\n") <= longest)
        for split, tasks in found.items()
    }
    if not any(kept.values()):
        least = min(task.data["gold"].count("\n") for tasks in found.values() for task in tasks)
        raise UserError(f"env longest must leave tasks: got {longest} - the shortest function has {least} lines")
    return kept


def part(found: Mapping[Split, tuple[Task, ...]], which: str) -> Mapping[Split, tuple[Task, ...]]:
    """With the training tasks of parts of the functions: `which` is "i/n", the i-th of n, or "i-j/n", by their names.

    The parts of one n share no function and make up the whole; the other splits stay as they are.

    Raises:
        UserError: they are not in order, or no training task is of these parts.
    """
    chosen, _, whole = which.partition("/")
    ends, parts = [int(number) for number in chosen.split("-")], int(whole)
    if not ends[0] <= ends[-1] <= parts:
        raise UserError(
            f"env part must be i/n or i-j/n with i <= j <= n: got {which} - {parts}/{parts} is the last one"
        )

    def place(task: Task) -> int:
        name = f"{task.data['package']}/{task.data['names']['F']}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % parts + 1

    kept = tuple(task for task in found["train"] if ends[0] <= place(task) <= ends[-1])
    if not kept:
        raise UserError(f"env part must hold training tasks: got {which}, which has none - take fewer parts")
    return {**found, "train": kept}


def fault(row: Mapping[str, Any]) -> str:
    """Why an object of JSON is no row, "" where it is one."""
    try:
        _task(Row.model_validate_json(json.dumps(row)))
    except _FAULTS as why:
        return _said(why)
    return ""


def is_value(text: str) -> bool:
    """Whether a text is a literal that a row may hold."""
    try:
        _value(text)
    except _FAULTS:
        return False
    return True


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


def _said(why: Exception) -> str:
    """One line of what is wrong with a row."""
    if isinstance(why, ValidationError):
        first = why.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()
    return " ".join(f"{why}".split())[:200] or "it is nested too deeply"


def _task(row: Row) -> Task:
    _check(row)
    data: dict[str, Any] = {
        "package": row.package, "kind": row.kind, "line": row.line, "names": {"F": row.function},
        "app": row.app, "gold": row.gold, "wrong": [list(one) for one in row.wrong],
    }  # fmt: skip
    calls, wants = _told(row.function, row.calls)
    data["calls"], data["tests"] = calls, test_file(row.function, calls, wants)
    data["unseen_tests"] = test_file(row.function, *_told(row.function, row.spare))
    digest = hashlib.sha256(json.dumps([row.app, data["tests"]]).encode()).hexdigest()[:10]
    prompt = f"Fix {row.function} in {APP}."
    return Task(f"microswe-{row.split}-{digest}", "microswe", SYSTEM, prompt, TOOLS, data, row.split)


def _check(row: Row) -> None:
    """Raises ValueError: the code is none of this world, or what is said of it is not so."""
    for text in (row.app, row.gold):
        body = parse(text).body
        if not plain(text) or not isinstance(body[0], ast.FunctionDef) or body[0].name != row.function:
            raise ValueError(f"its code must be one plain function {row.function}")
    app, gold = row.app.split("\n"), row.gold.split("\n")
    if len(app) != len(gold) or row.line >= len(gold):
        raise ValueError("app and gold must have the same number of lines, line among them")
    try:
        mended = follow(row.app, read({"line": str(row.line), "new": gold[row.line - 1].strip()}))
    except PolicyError as fault:
        raise ValueError(f"an edit of its line must mend it: {fault}") from fault
    if mended != row.gold:
        raise ValueError("app and gold must differ in its line alone, and not in the indentation")
    if not all(1 <= line < len(app) for line, _ in row.wrong):
        raise ValueError("each wrong edit must be of a line of the file")


def _told(name: str, calls: Calls) -> tuple[list[str], list[Any]]:
    """Calls as they are told, and the values that they give."""
    told = [call_text(name, tuple(_value(text) for text in args)) for args, _ in calls]
    return told, [_value(want) for _, want in calls]


def _value(text: str) -> Any:
    """The value of a literal. Raises ValueError: it does not read back as itself, or may be told in several ways."""
    tree = parse(text.strip(), "eval")
    if any(isinstance(node, ast.Set) and len(node.elts) > 1 for node in ast.walk(tree)):
        raise ValueError("a value must not hold a set of several")
    value = ast.literal_eval(tree)
    if literal(repr(value)) != value:
        raise ValueError("a value must read back as itself")
    return value
