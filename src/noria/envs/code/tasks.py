"""Tasks: a family with its constants, two calls that are shown and eight that are not.

Splits go by the SHA-256 of the statement, modulo 4: 0 is held out. Some families are `unseen`: they are of neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from noria.bases.world import check_split
from noria.core.errors import UserError
from noria.core.types import Split, Task, Tool
from noria.envs.code import on_lists, on_numbers, on_tables, on_texts
from noria.envs.code.family import Args, Family
from noria.graders._shown import show

NAME = "code"
SYSTEM = "Write the function, try it, then submit."
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
FAMILIES: Mapping[str, Family] = {
    **on_lists.FAMILIES, **on_texts.FAMILIES, **on_numbers.FAMILIES, **on_tables.FAMILIES
}  # fmt: skip
TOOLS = (
    Tool("write", "put code into solution.py", {"code": ("string", "the whole file")}),
    Tool("run", "value of an expression with solution.py loaded", {"call": ("string", "as f([1, 2])")}),
    Tool("submit", "hand in solution.py and end"),
)
SHOWN, HIDDEN = 2, 8
_HELDOUT_ONE_IN = 4
_CANDIDATES = 40
#: Draws for one new task before the space counts as used up, and of one family before the next has its turn.
_MAX_DRAWS, _MAX_IN_A_ROW = 200, 40
#: What the solutions of the families, right or wrong, can raise.
_FAULTS = (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError)


class Suite(NamedTuple):
    """Calls of an instance as (arguments, result), those that tell most wrong solutions apart first."""

    calls: tuple[tuple[Args, Any], ...]
    kills: tuple[frozenset[str], ...]


def draw_tasks(split: Split, n: int, seed: int) -> list[Task]:
    """`n` distinct tasks of a split, families in turn; a shorter list is a prefix of a longer.

    Raises:
        UserError: an unknown split, or more tasks than can be found.
    """
    check_split(split, SPLITS)
    rng = Random(f"{NAME}:{split}:{seed}")
    keys = [key for key, family in FAMILIES.items() if family.unseen == (split == "unseen")]
    found: dict[str, Task] = {}
    turn = failed = 0
    for _ in range(_MAX_DRAWS * (n + 1)):
        if len(found) == n:
            return list(found.values())
        task = _draw(keys[turn % len(keys)], split, rng)
        failed += 1
        if task is not None and task.id not in found:
            found[task.id] = task
            failed = 0
        if failed in (0, _MAX_IN_A_ROW):
            turn, failed = turn + 1, 0
    raise UserError(f"tasks must be fewer: got {n}, found {len(found)} - ask for fewer")


def _draw(key: str, split: Split, rng: Random) -> Task | None:
    """One task; None where it belongs to another split."""
    family = FAMILIES[key]
    consts = {name: rng.randint(*span) for name, span in (family.consts or {}).items()}
    name = rng.choice(family.names)
    statement = family.statement(name, consts)
    heldout = int(hashlib.sha256(statement.encode()).hexdigest()[:8], 16) % _HELDOUT_ONE_IN == 0
    if split != "unseen" and heldout != (split == "heldout"):
        return None
    suite = suite_of(key, tuple(sorted(consts.items())))
    at = rng.sample(range(len(suite.calls)), SHOWN)
    hidden = _hidden(suite, at)
    # An error that no call tells from the solution, with these constants, is none.
    told = sorted(frozenset[str]().union(*(suite.kills[i] for i in (*at, *hidden))))
    calls = [(_call(name, suite.calls[i][0]), suite.calls[i][1]) for i in (*at, *hidden)]
    examples = "; ".join(f"{call} = {value!r}" for call, value in calls[:SHOWN])
    prompt = f"{statement} Examples: {examples}"
    digest = hashlib.sha256(prompt.encode()).hexdigest()[:10]
    data: dict[str, Any] = {
        "family": key,
        "consts": consts,
        "function": name,
        "gold": family.code(name, consts),
        "errors": {kind: family.code(name, consts, kind) for kind in told},
        "shown": [[call, repr(value)] for call, value in calls[:SHOWN]],
        "spec": {"function": name, "calls": [{"call": call, "wanted": repr(value)} for call, value in calls]},
    }
    return Task(f"{NAME}-{split}-{digest}", NAME, SYSTEM, prompt, TOOLS, data, split)


def _hidden(suite: Suite, shown: list[int]) -> list[int]:
    """Calls that are not shown: greedily those that tell wrong solutions apart which none before does."""
    rest = [i for i in range(len(suite.calls)) if i not in shown]
    chosen: list[int] = []
    times: dict[str, int] = {}
    while rest and len(chosen) < HIDDEN:
        best = max(rest, key=lambda i: (sum(0.25 ** times.get(kind, 0) for kind in suite.kills[i]), -i))
        rest.remove(best)
        chosen.append(best)
        for kind in suite.kills[best]:
            times[kind] = times.get(kind, 0) + 1
    return chosen


@lru_cache(maxsize=4096)
def suite_of(key: str, consts: tuple[tuple[str, int], ...]) -> Suite:
    """The calls of an instance; the same on every machine."""
    family, values = FAMILIES[key], dict(consts)
    rng = Random(f"{NAME}:{key}:{json.dumps(consts)}")
    drawn = [*family.edges, *(family.inputs(rng, values) for _ in range(_CANDIDATES))]
    inputs = list({repr(args): args for args in drawn}.values())
    right = _load(family.code("f", values))
    wrong = {kind: _load(family.code("f", values, kind)) for kind in family.errors}
    calls, kills = [], []
    for args in inputs:
        value = _value(right, args)
        calls.append((args, value))
        kills.append(frozenset(kind for kind, run in wrong.items() if _shown(run, args) != show(value)))
    return Suite(tuple(calls), tuple(kills))


def _load(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(text, "solution.py", "exec"), space)  # noqa: S102 - text of this world's own families
    return space["f"]


def _value(run: Any, args: Args) -> Any:
    return run(*_copied(args))


def _shown(run: Any, args: Args) -> str:
    try:
        return show(_value(run, args))
    except _FAULTS as fault:
        return f"!{type(fault).__name__}"


def _copied(args: Any) -> Any:
    if isinstance(args, list | tuple):
        return type(args)(_copied(each) for each in args)
    return dict(args) if isinstance(args, dict) else args


def _call(name: str, args: Args) -> str:
    return f"{name}({', '.join(repr(each) for each in args)})"
