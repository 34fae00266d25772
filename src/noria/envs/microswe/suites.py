"""Test suites: a few short calls that tell a function from all its mutants."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from noria.core.cover import cover
from noria.envs.microswe.families import POOLS, Family, registry, render
from noria.envs.microswe.mutations import mutants

_CANDIDATES = 48
_MIN_TESTS, _MAX_TESTS = 4, 5
_MAX_SPARE = 12
_WORDS = "abeo"


@dataclass(frozen=True)
class Suite:
    """`calls` are (arguments, wanted result); `killed` are the indices of the mutants that fail a call.

    `spare` are calls that no test shows: what passes the tests by knowing them fails these.
    """

    calls: tuple[tuple[tuple[Any, ...], Any], ...]
    killed: tuple[int, ...]
    spare: tuple[tuple[tuple[Any, ...], Any], ...] = ()


def _numbers(rng: random.Random, low: int, high: int, short: int, long: int, near: list[int]) -> list[int]:
    return [
        rng.choice(near) if near and rng.random() < 0.4 else rng.randint(low, high)
        for _ in range(rng.randint(short, long))
    ]


def _word(rng: random.Random, short: int, long: int) -> str:
    return "".join(rng.choice(_WORDS) for _ in range(rng.randint(short, long)))


#: domain code -> one argument; `near` are the constants and their neighbours
DOMAINS: dict[str, Callable[[random.Random, list[int]], Any]] = {
    "n": lambda rng, near: rng.choice(near) if near and rng.random() < 0.5 else rng.randint(0, 9),
    "y": lambda rng, near: rng.choice(near) if rng.random() < 0.7 else rng.randint(-3, 9),
    "p": lambda rng, near: rng.randint(0, 4),
    "q": lambda rng, near: rng.randint(0, 3),
    "g": lambda rng, near: rng.randint(0, 12),
    "l": lambda rng, near: _numbers(rng, 0, 9, 1, 4, near),
    "e": lambda rng, near: _numbers(rng, 0, 9, 0, 3, near),
    "m": lambda rng, near: _numbers(rng, -6, 9, 1, 3, near),
    "v": lambda rng, near: _numbers(rng, 0, 9, 1, 4, []),
    "d": lambda rng, near: _numbers(rng, 0, 3, 1, 4, []),
    "w": lambda rng, near: _word(rng, 1, 5),
    "t": lambda rng, near: " ".join(_word(rng, 1, 4) for _ in range(rng.randint(1, 3))),
    "c": lambda rng, near: rng.choice(_WORDS),
}


@cache
def suite(key: str, consts: tuple[tuple[str, int], ...]) -> Suite:
    """The tests of one family with its constants fixed; the same on every machine."""
    family = registry()[key]
    values = dict(consts)
    seed = hashlib.sha256(f"{key}{sorted(values.items())}".encode()).digest()
    inputs = _inputs(family, values, random.Random(seed))
    names = {letter: POOLS[letter][0] for letter in family.letters}
    programs = [_load(render(family.lines, names | {"F": "f"}, values))]
    programs += [_load(render(one.lines, names | {"F": "f"}, values)) for one in mutants(key)]
    wanted = [(args, _call(programs[0], args)) for args in inputs]
    wanted = [(args, want) for args, want in wanted if not isinstance(want, Fault)]
    kills = [{i for i, run in enumerate(programs[1:]) if _call(run, args) != want} for args, want in wanted]
    chosen = cover(kills, [len(repr(call)) for call in wanted], _MIN_TESTS, _MAX_TESTS)
    killed = set().union(*(kills[i] for i in chosen))
    # Calls that tell most mutants from the function first.
    rest = sorted(set(range(len(wanted))) - set(chosen), key=lambda i: (-len(kills[i]), i))[:_MAX_SPARE]
    calls, spare = (tuple(wanted[i] for i in indices) for indices in (chosen, rest))
    return Suite(calls, tuple(sorted(killed)), spare)


class Fault(str):
    """The name of the exception that a call raised; never equal to a result."""


def _call(run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return run(*(one[:] if isinstance(one, list) else one for one in args))
    except (TypeError, ValueError, IndexError, NameError, ZeroDivisionError) as error:
        return Fault(f"!{type(error).__name__}")


def _load(text: str) -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(compile(text, "app.py", "exec"), space)  # noqa: S102 - text of this module's own templates
    run: Callable[..., Any] = space["f"]
    return run


def _inputs(family: Family, consts: dict[str, int], rng: random.Random) -> list[tuple[Any, ...]]:
    near = [value + step for value in consts.values() for step in (-1, 0, 1)]
    found: dict[str, tuple[Any, ...]] = {}
    for _ in range(4 * _CANDIDATES):
        args = tuple(DOMAINS[code](rng, near) for code in family.domains)
        if family.valid is None or family.valid(args):
            found.setdefault(repr(args), args)
        if len(found) == _CANDIDATES:
            break
    return list(found.values())
