"""How far an episode got: which facts of the reference its calls established, and whether its answer is right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from noria.envs.tableqa.questions import Fact
from noria.envs.tableqa.store import Evidence
from noria.graders.base import Case
from noria.graders.blocking import at_once

#: How far a computed cell may be off what was rounded for the reference.
_ROUNDED = 0.06
#: A longer answer is none.
_MAX_SAID = 400


def established(facts: Sequence[Fact], log: Sequence[Evidence]) -> list[bool]:
    """Whether each fact is established. A fact is, too, where a later one of the chain is: one query may do it all."""
    read = frozenset[str]().union(*(evidence.read for evidence in log))
    columns = [column for evidence in log for column in zip(*evidence.rows, strict=True)]
    own = [_holds(fact, read, columns) for fact in facts]
    values = [held and "any" in fact for held, fact in zip(own, facts, strict=True)]
    return [held or any(values[i + 1 :]) for i, held in enumerate(own)]


def parts_of(facts: Sequence[Fact], log: Sequence[Evidence], right: bool) -> dict[str, float]:
    """`columns`, `partial` and `outcome`, each in [0, 1], and `process`: the share of all of them by count."""
    held = established(facts, log)
    pairs = list(zip(facts, held, strict=True))
    columns = [each for fact, each in pairs if "table" in fact]
    partial = [each for fact, each in pairs if "any" in fact]
    return {
        "process": (sum(held) + right) / (len(held) + 1),
        "outcome": float(right),
        "columns": sum(columns) / len(columns),
        "partial": sum(partial) / len(partial),
    }


def right_answer(said: str, want: Mapping[str, Any]) -> bool:
    """Whether a text gives the answer, however it is written, and no other beside it.

    `want` has `form` ("number", "text" or "list"), `answer` (its items) and `off` (the error that is allowed).
    """
    items: list[str] = want["answer"]
    if len(said) > _MAX_SAID:
        return False
    spec: dict[str, Any] = {"items": items}
    if want["form"] == "text":
        spec = {"accepted": items[:1]}
    elif want["form"] == "number":
        spec = {"value": float(items[0]), "rel_tol": 1e-9, "abs_tol": float(want["off"])}
    return at_once(Case(f"table.{want['form']}", answer=said, spec=spec)).solved


def _holds(fact: Fact, read: frozenset[str], columns: Sequence[tuple[Any, ...]]) -> bool:
    if "table" in fact:
        return all(f"{fact['table']}.{column}" in read for column in fact["columns"])
    return any(_same(column, want) for want in fact["any"] for column in columns)


def _same(have: Sequence[Any], want: Sequence[Any]) -> bool:
    """Whether a column of a result holds these values in any order."""
    if len(have) != len(want):
        return False
    pairs = zip(sorted(have, key=_order), sorted(want, key=_order), strict=True)
    return all(_equal(a, b) for a, b in pairs)


def _order(cell: Any) -> tuple[int, float, str]:
    return (0, float(cell), "") if isinstance(cell, int | float) else (1, 0.0, str(cell))


def _equal(have: Any, want: Any) -> bool:
    if isinstance(have, int | float) and isinstance(want, int | float):
        return math.isclose(have, want, rel_tol=1e-9, abs_tol=_ROUNDED if isinstance(want, float) else 0.0)
    return bool(have == want)
