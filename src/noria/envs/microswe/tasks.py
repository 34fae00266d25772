"""Tasks: a family, a bug, names and constants, drawn so that no held-out combination is ever trained on."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from functools import cache
from typing import Any

from noria.core.errors import UserError
from noria.core.types import Split, Task, Tool
from noria.envs.microswe.families import POOLS, registry, render
from noria.envs.microswe.mutations import mutants
from noria.envs.microswe.suites import suite

APP, TESTS = "app.py", "test_app.py"
SYSTEM = "Repair the code until its tests pass."
TOOLS = (
    Tool("view", "Show app.py with line numbers."),
    Tool(
        "edit",
        "Write a line anew; its indentation stays.",
        {"line": ("integer", "line number"), "new": ("string", "what the line shall read")},
    ),
    Tool("test", "Run the tests."),
    Tool("submit", "Hand in the file and end."),
)
#: Where a world offers it (`Config.reset`).
RESET = Tool("reset", "Put app.py back as it was at first.")
#: Families that no training and no held-out task uses.
UNSEEN = frozenset(("arg_min", "keep_under", "all_above", "missing", "smaller", "squares_to", "only_char", "one_over"))
_HELDOUT_PERCENT = 15
_SALT = "microswe-1"
#: Draws in a row that bring nothing new: the world is exhausted.
_MAX_MISSES = 2000


def held_out(key: str, kind: str) -> bool:
    """Whether the combination of a family and a kind of bug is kept for evaluation; never changes."""
    digest = hashlib.sha256(f"{_SALT}/{key}/{kind}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % 100 < _HELDOUT_PERCENT


@cache
def combinations(split: Split) -> tuple[tuple[str, str], ...]:
    """The (family, kind) pairs of a split, in a fixed order."""
    found: dict[tuple[str, str], None] = {}
    for key in registry():
        for one in mutants(key):
            if split == _split_of(key, one.kind):
                found[key, one.kind] = None
    return tuple(found)


def draw_tasks(split: Split, n: int, seed: int, pairs: tuple[tuple[str, str], ...] | None = None) -> list[Task]:
    """`n` tasks without repeats; a longer list starts with the shorter one.

    `pairs` narrows the split to some of its (family, kind) combinations.

    Raises:
        UserError: unknown split, or more distinct tasks wanted than could be drawn.
    """
    if split not in ("train", "heldout", "unseen"):
        raise UserError(f"split must be train, heldout or unseen: got {split!r}")
    rng = random.Random(f"microswe/{split}/{seed}")
    found: dict[str, Task] = {}
    misses = 0
    while len(found) < n:
        key, kind = rng.choice(pairs or combinations(split))
        task = _draw(key, kind, split, rng)
        misses = misses + 1 if task is None or task.id in found else 0
        if task is not None:
            found.setdefault(task.id, task)
        if misses > _MAX_MISSES:
            raise UserError(f"tasks must be at most what the world holds: got {n} for {split} - ask for fewer")
    return list(found.values())


def code(data: Mapping[str, Any], lines: tuple[str, ...]) -> str:
    """A template with the names and constants of a task."""
    return render(lines, data["names"], data["consts"])


def _split_of(key: str, kind: str) -> Split:
    if key in UNSEEN:
        return "unseen"
    return "heldout" if held_out(key, kind) else "train"


def _draw(key: str, kind: str, split: Split, rng: random.Random) -> Task | None:
    """One task, or None when no bug of this kind shows with the constants drawn."""
    family = registry()[key]
    consts = {letter: rng.randint(*span) for letter, span in family.consts.items()}
    names = {letter: rng.choice(POOLS[letter]) for letter in family.letters}
    names["F"] = rng.choice(family.names)
    tests = suite(key, tuple(sorted(consts.items())))
    sites = [i for i in tests.killed if mutants(key)[i].kind == kind]
    if not sites:
        return None
    site = rng.choice(sites)
    data: dict[str, Any] = {
        "family": key, "kind": kind, "site": site, "line": mutants(key)[site].line,
        "names": names, "consts": consts,
    }  # fmt: skip
    data["app"] = code(data, mutants(key)[site].lines)
    data["gold"] = code(data, family.lines)
    data["calls"] = [call_text(names["F"], args) for args, _ in tests.calls]
    data["tests"] = test_file(names["F"], data["calls"], [want for _, want in tests.calls])
    spare = [call_text(names["F"], args) for args, _ in tests.spare]
    data["unseen_tests"] = test_file(names["F"], spare, [want for _, want in tests.spare])
    content = json.dumps([data["app"], data["tests"]])
    digest = hashlib.sha256(content.encode()).hexdigest()[:10]
    prompt = f"Fix {names['F']} in {APP}."
    return Task(f"microswe-{split}-{digest}", "microswe", SYSTEM, prompt, TOOLS, data, split)


def _compact(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(_compact(one) for one in value) + "]"
    return repr(value)


def call_text(name: str, args: tuple[Any, ...]) -> str:
    """A call as it is told, without spaces: `clamp(7,0,5)`."""
    return f"{name}({','.join(_compact(one) for one in args)})"


def test_file(name: str, calls: list[str], wants: list[Any]) -> str:
    """The text of a test file: one test per call, whose failure says what came and what was wanted."""
    parts = [f"from app import {name}\n"]
    for number, (call, want) in enumerate(zip(calls, wants, strict=True), 1):
        said, end = json.dumps(call + "="), json.dumps(f" want {_compact(want)}")
        parts.append(f"\n\ndef test_{number}():\n    got = {call}\n    assert got == {want!r}, ")
        parts.append(f'{said} + repr(got).replace(" ", "") + {end}\n')
    return "".join(parts)
