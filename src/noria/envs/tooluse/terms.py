"""The small language of checks and effects: parsed once, then interpreted (`rules`) and emitted as Python (`emit`).

    term    12   'open'   amount   book.state   book.shelf.room   count(books: shelf=shelf)
    sum     term (+ term | - term)*
    test    sum (== | != | <= | >= | < | >) sum
    effect  row.field = sum        row.ref.field = sum        new table: field=sum, …

A name without a dot is a parameter; with dots, a path that starts at a parameter which is an id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

COMPARE = ("==", "!=", "<=", ">=", "<", ">")
_COUNT = re.compile(r"count\((\w+): (.*)\)")
_PATH = re.compile(r"[a-z_]\w*(\.[a-z_]\w*){0,2}")
_HOLE = re.compile(r"\{([^}]*)\}")


class BadTerm(ValueError):
    """The text is not of the language."""


@dataclass(frozen=True, slots=True)
class Const:
    """A number or a text."""

    value: int | str


@dataclass(frozen=True, slots=True)
class Arg:
    """The value of a parameter."""

    name: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A field of the row that a parameter names, or of the row that `via`, a reference of that row, points to."""

    row: str
    via: str
    field: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows of a table have these values."""

    table: str
    where: tuple[tuple[str, Sum], ...]


Term = Const | Arg | Cell | Count


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms with their signs."""

    terms: tuple[tuple[int, Term], ...]


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison."""

    __test__ = False
    left: Sum
    op: str
    right: Sum


@dataclass(frozen=True, slots=True)
class Put:
    """A cell gets a value."""

    cell: Cell
    value: Sum


@dataclass(frozen=True, slots=True)
class New:
    """A table gets a row."""

    table: str
    values: tuple[tuple[str, Sum], ...]


@lru_cache(maxsize=8192)
def comparison_of(text: str) -> Test:
    """A comparison. Raises BadTerm."""
    for op in COMPARE:
        left, found, right = text.partition(f" {op} ")
        if found:
            return Test(sum_of(left), op, sum_of(right))
    raise BadTerm(f"no comparison in {text!r}")


@lru_cache(maxsize=8192)
def effect_of(text: str) -> Put | New:
    """An effect. Raises BadTerm."""
    if text.startswith("new "):
        table, found, rest = text[4:].partition(": ")
        if not found:
            raise BadTerm(f"no fields in {text!r}")
        return New(table, _pairs(rest))
    target, found, value = text.partition(" = ")
    cell = _term(target)
    if not found or not isinstance(cell, Cell):
        raise BadTerm(f"not an effect: {text!r}")
    return Put(cell, sum_of(value))


@lru_cache(maxsize=8192)
def sum_of(text: str) -> Sum:
    """A sum. Raises BadTerm."""
    parts = re.split(r" ([+-]) ", text)
    signs = [1, *(1 if sign == "+" else -1 for sign in parts[1::2])]
    return Sum(tuple((sign, _term(part)) for sign, part in zip(signs, parts[::2], strict=True)))


@lru_cache(maxsize=8192)
def pieces_of(text: str) -> tuple[str | Term, ...]:
    """A message as texts and, for what stands in braces, terms. Raises BadTerm."""
    parts = _HOLE.split(text)
    return tuple(_term(part) if at % 2 else part for at, part in enumerate(parts) if part)


def _term(text: str) -> Term:
    text = text.strip()
    if text.isdigit():
        return Const(int(text))
    if len(text) >= 2 and text[0] == text[-1] == "'" and re.fullmatch(r"\w*", text[1:-1]):
        return Const(text[1:-1])
    if found := _COUNT.fullmatch(text):
        return Count(found.group(1), _pairs(found.group(2)))
    if not _PATH.fullmatch(text):
        raise BadTerm(f"not a term: {text!r}")
    path = text.split(".")
    if len(path) == 1:
        return Arg(path[0])
    return Cell(path[0], path[1] if len(path) == 3 else "", path[-1])


def _pairs(text: str) -> tuple[tuple[str, Sum], ...]:
    found: list[tuple[str, Sum]] = []
    for part in text.split(", "):
        field, eq, value = part.partition("=")
        if not eq:
            raise BadTerm(f"no value in {part!r}")
        found.append((field, sum_of(value)))
    return tuple(found)
