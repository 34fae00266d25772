"""Further calls near those that were watched: the edges that a package's own tests leave out."""

from __future__ import annotations

import random
from typing import Any

from noria.core.syntax import literal

#: Calls that a function is played on at most, and how many changes are tried.
MOST, TRIES = 64, 400


def near(calls: list[list[str]], rng: random.Random) -> list[list[str]]:
    """The calls, and others with one argument changed a little, without repeats; literals as texts."""
    found = dict.fromkeys(tuple(call) for call in calls)
    for _ in range(TRIES):
        if len(found) >= MOST or not calls:
            break
        call = list(rng.choice(calls))
        if not call:
            break
        at = rng.randrange(len(call))
        call[at] = repr(_changed(literal(call[at]), rng))
        found.setdefault(tuple(call))
    return [list(call) for call in found][:MOST]


def _changed(value: Any, rng: random.Random) -> Any:
    """A value of the same kind, a little off."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice([value - 1, value + 1, -value, 0, 1, 2, rng.randint(-9, 20)])
        case float():
            return rng.choice([value + 1, value - 0.5, -value, 0.0])
        case str():
            return _changed_text(value, rng)
        case list():
            return _changed_list(value, rng)
        case tuple():
            return tuple(_changed_list(list(value), rng))
        case dict() if value:
            key = rng.choice(list(value))
            return {k: v for k, v in value.items() if k != key} if rng.random() < 0.5 else {
                **value, key: _changed(value[key], rng)}  # fmt: skip
        case _:
            return value


def _changed_text(value: str, rng: random.Random) -> str:
    at = rng.randint(0, len(value))
    sign = rng.choice(value) if value and rng.random() < 0.7 else rng.choice("ab1 -")
    match rng.randrange(5):
        case 0:
            return value[:at] + value[at + 1 :]
        case 1:
            return value[:at] + sign + value[at:]
        case 2:
            return value[::-1]
        case 3:
            return value[:at]
        case _:
            return value.upper() if rng.random() < 0.5 else value[at:]


def _changed_list(value: list[Any], rng: random.Random) -> list[Any]:
    at = rng.randrange(len(value)) if value else 0
    match rng.randrange(5):
        case 0:
            return value[:at] + value[at + 1 :]
        case 1 if value:
            return [*value[:at], _changed(value[at], rng), *value[at + 1 :]]
        case 2:
            return value[::-1]
        case 3:
            return value[:at]
        case _:
            return [*value, rng.choice(value)] if value else value
