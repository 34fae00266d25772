"""What a function family is, how its template becomes code, and the registry of all families.

A template is Python text whose single capital letters stand for names and constants: `F` is the function,
`A` a list, `K` and `J` the constants of the instance. `Kp` and `Km` are a constant plus and minus one; only
mutations write them. Where a family has both constants their ranges stay two apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

#: Names a letter may take. The pools are disjoint, so two letters never get one name.
POOLS: Mapping[str, tuple[str, ...]] = {
    "A": ("items", "nums", "vals", "xs"),
    "B": ("other", "more"),
    "C": ("c", "ch"),
    "G": ("best", "top"),
    "H": ("hi", "high"),
    "I": ("i", "j"),
    "L": ("lo", "low"),
    "N": ("n", "k", "m"),
    "O": ("out", "res"),
    "P": ("a", "p"),
    "Q": ("b", "q"),
    "S": ("s", "text"),
    "T": ("total", "acc"),
    "W": ("w", "word"),
    "X": ("x", "v"),
    "Y": ("y", "u"),
}
_LETTER = re.compile(r"\b([A-Z])([pm]?)\b")
_SHIFT = {"": 0, "p": 1, "m": -1}


@dataclass(frozen=True)
class Family:
    """One kind of function.

    key      stable identifier
    names    synonyms of the function's name
    lines    template lines: the `def`, the docstring, the body
    domains  one code of `suites` per argument
    consts   letter -> inclusive range of its value
    valid    keeps only arguments on which the docstring is unambiguous
    """

    key: str
    names: tuple[str, ...]
    lines: tuple[str, ...]
    domains: tuple[str, ...]
    consts: Mapping[str, tuple[int, int]]
    valid: Callable[[tuple[Any, ...]], bool] | None = None

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of the template that need a name, in order of appearance."""
        seen = dict.fromkeys(found.group(1) for line in self.lines for found in _LETTER.finditer(line))
        return tuple(letter for letter in seen if letter != "F" and letter not in self.consts)


def family(
    key: str,
    names: str,
    signature: str,
    domains: str,
    doc: str,
    body: str,
    *,
    valid: Callable[[tuple[Any, ...]], bool] | None = None,
    **consts: tuple[int, int],
) -> Family:
    """A family from compact text: body lines are split at newlines and carry their own relative indent."""
    lines = (f"def F({signature}):", f' """{doc}"""', *(f" {line}" for line in body.strip("\n").split("\n")))
    return Family(key, tuple(names.split()), lines, tuple(domains.split()), consts, valid)


def render(lines: tuple[str, ...], names: Mapping[str, str], consts: Mapping[str, int]) -> str:
    """Template lines as code that ends with a newline."""

    def put(found: re.Match[str]) -> str:
        letter, shift = found.groups()
        if letter in consts:
            return str(consts[letter] + _SHIFT[shift])
        return names[letter] + shift

    return _LETTER.sub(put, "\n".join(lines)) + "\n"


@cache
def registry() -> Mapping[str, Family]:
    """All families by key, in a fixed order."""
    from noria.envs.microswe import lists, numbers, picks, texts

    every = (*lists.FAMILIES, *picks.FAMILIES, *numbers.FAMILIES, *texts.FAMILIES)
    return {one.key: one for one in every}
