"""Which lines of a check-list hold, seen from outside: nothing of the agent's runs any more, and none of it is asked.

Files are read as data, databases by a process of ours over a copy, and programs run in a workspace that holds no more
than the files under test and inputs that the agent never saw. What is expected never enters a workspace.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as IniError
from dataclasses import dataclass
from typing import Any

from noria.core.errors import PolicyError
from noria.core.protocols import Sandbox, Workspace
from noria.envs.claw import inside
from noria.envs.claw.job import Item
from noria.graders.base import Case
from noria.graders.blocking import at_once
from noria.graders.maths import final

#: Files that are larger are not what was asked for.
_MAX_CHARS = 200_000
#: A longer answer is none.
_MAX_SAID = 200


@dataclass(frozen=True, slots=True)
class Found:
    """How far a line holds, in [0, 1], and what is wrong where it does not."""

    share: float
    why: str = ""


def check(items: Sequence[Item], workspace: Workspace, sandbox: Sandbox, answer: str) -> list[Found]:
    """What holds of each line.

    Raises:
        SandboxError: it could not be looked at, so nothing is known.
    """
    asked = [(item["db"], item["query"]) for item in items if item["kind"] == "table"]
    told = iter(inside.ask(workspace, asked))
    found: list[Found] = []
    for item in items:
        if item["kind"] == "table":
            found.append(_table(item, next(told)))
        elif item["kind"] == "runs":
            found.append(_runs(item, workspace, sandbox))
        elif item["kind"] == "answer":
            found.append(_answer(item, answer))
        else:
            found.append(_file(item, workspace))
    return found


def progress(items: Sequence[Item], found: Sequence[Found]) -> float:
    """Weighted share of the goals; 0 where a guard is broken."""
    if any(item["guard"] and each.share < 1 for item, each in zip(items, found, strict=True)):
        return 0.0
    total = float(sum(item["weight"] for item in items))
    return float(sum(item["weight"] * each.share for item, each in zip(items, found, strict=True))) / total


def _file(item: Item, workspace: Workspace) -> Found:
    text = _read(workspace, item["path"])
    if item["kind"] == "gone":
        return Found(float(text is None), f"{item['path']} is still there")
    if text is None:
        return Found(0.0, f"no file {item['path']}")
    if len(text) > _MAX_CHARS:
        return Found(0.0, f"{item['path']} is too large")
    why = _KINDS[item["kind"]](item, text)
    return Found(float(not why), why and f"{item['path']}: {why}")


def _read(workspace: Workspace, path: str) -> str | None:
    """The file's text; None where there is none inside the workspace."""
    try:
        return workspace.read(path)
    except PolicyError:
        return None


def _text(item: Item, text: str) -> str:
    return "" if _plain(text) == _plain(item["want"]) else "reads otherwise"


def _same(item: Item, text: str) -> str:
    return "" if text == item["want"] else "was changed"


def _has(item: Item, text: str) -> str:
    return "" if re.search(item["pattern"], text) else "something is missing"


def _lacks(item: Item, text: str) -> str:
    return "something is left" if re.search(item["pattern"], text) else ""


def _rows(item: Item, text: str) -> str:
    try:
        have = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error:
        return "is no CSV"
    return "" if equal(have, item["want"]) else "has other rows"


def _value(item: Item, text: str) -> str:
    try:
        have = json.loads(text)
    except (ValueError, RecursionError):
        return "is no JSON"
    return "" if equal(have, item["want"], strict=True) else "has another value"


def _ini(item: Item, text: str) -> str:
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except IniError:
        return "is no INI file"
    have = {name: dict(parser[name]) for name in parser.sections()}
    return "" if have == item["want"] and not parser.defaults() else "has other values"


_KINDS: Mapping[str, Callable[[Item, str], str]] = {
    "text": _text, "same": _same, "has": _has, "lacks": _lacks, "rows": _rows, "value": _value, "ini": _ini,
}  # fmt: skip


def _table(item: Item, told: Mapping[str, Any]) -> Found:
    if "fault" in told:
        return Found(0.0, f"{item['db']}: {told['fault']}")
    right = equal(told["rows"], item["want"], strict=True)
    return Found(float(right), "" if right else f"{item['db']}: {item['name']} is otherwise")


def _runs(item: Item, workspace: Workspace, sandbox: Sandbox) -> Found:
    """The share of cases that print what they should, on copies of the files."""
    files: dict[str, str] = dict(item["files"])
    for name in item["takes"]:
        wanted = name.removesuffix("?")
        text = _read(workspace, f"{item['folder']}/{wanted}" if "folder" in item else wanted)
        if text is None and not name.endswith("?"):
            return Found(0.0, f"no file {wanted}")
        if text is not None:
            files[wanted] = text
    try:
        fresh = sandbox.workspace(files)
    except PolicyError as fault:
        return Found(0.0, str(fault))
    try:
        printed = inside.play(fresh, [case["argv"] for case in item["cases"]])
    finally:
        fresh.close()
    right = sum(_plain(said) == _plain(case["want"]) for said, case in zip(printed, item["cases"], strict=True))
    total = len(item["cases"])
    return Found(right / total, "" if right == total else f"{item['name']}: {total - right} of {total} cases fail")


def _answer(item: Item, answer: str) -> Found:
    parts = answer.split(";")
    if len(parts) != item["places"]:
        return Found(0.0, f"the final message has {len(parts)} answers, not {item['places']}")
    right = answers(parts[item["place"]], item["want"], item["numeric"])
    return Found(float(right), "" if right else f"{item['name']} is wrong")


def answers(said: str, want: str, numeric: bool) -> bool:
    """Whether a text is the answer: one number, or the words, however they are written."""
    said = final(said)
    if len(said) > _MAX_SAID:
        return False
    spec = {"value": float(want), "rel_tol": 1e-6} if numeric else {"accepted": [want]}
    return at_once(Case("table.number" if numeric else "table.text", answer=said, spec=spec)).solved


def equal(have: Any, want: Any, strict: bool = False) -> bool:
    """Whether two values are the same; numbers by value, and without `strict` also those written as texts."""
    if isinstance(want, dict):
        return (
            isinstance(have, dict)
            and have.keys() == want.keys()
            and all(equal(have[key], value, strict) for key, value in want.items())
        )
    if isinstance(want, list):
        return (
            isinstance(have, list)
            and len(have) == len(want)
            and all(equal(a, b, strict) for a, b in zip(have, want, strict=True))
        )
    if isinstance(want, bool) or isinstance(have, bool):
        return have is want
    if strict:
        numbers = isinstance(have, int | float) and isinstance(want, int | float)
        return _close(have, want, 1e-9) if numbers else bool(have == want)
    return have == want or _near(have, want)


def _near(have: Any, want: Any) -> bool:
    try:
        return _close(float(have), float(want), 1e-6)
    except (TypeError, ValueError, OverflowError):
        return False


def _close(have: float, want: float, rel_tol: float) -> bool:
    try:
        return math.isclose(have, want, rel_tol=rel_tol)
    except OverflowError:  # JSON knows whole numbers of any size
        return False


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def fault_of(items: Sequence[Item], found: Sequence[Found]) -> str:
    """What is wrong first, "" where nothing is."""
    return next((each.why for each in found if each.share < 1), "")
