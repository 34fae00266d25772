"""The lines of a check-list as plain data; `checks` says which hold.

Each has a `name`, a `kind`, and a `weight` among the goals. A `guard` is no goal: it holds at the start, and work that
breaks it is worth nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noria.envs.claw.job import Item


def _item(kind: str, name: str, guard: bool = False, weight: float = 1.0, **rest: Any) -> Item:
    return {"kind": kind, "name": name, "guard": guard, "weight": 0.0 if guard else weight, **rest}


def text(path: str, want: str) -> Item:
    """The file reads so, but for spaces at the end of lines and empty lines at its end."""
    return _item("text", path, path=path, want=want)


def same(path: str, want: str) -> Item:
    """The file reads exactly as it did: a guard."""
    return _item("same", f"{path} kept", guard=True, path=path, want=want)


def gone(path: str) -> Item:
    """There is no such file."""
    return _item("gone", f"{path} gone", path=path)


def rows(path: str, want: Sequence[Sequence[str]]) -> Item:
    """A CSV file with these rows in this order; numbers compare as numbers."""
    return _item("rows", path, path=path, want=[list(row) for row in want])


def value(path: str, want: Any) -> Item:
    """A JSON file with this value; numbers compare as numbers, the order of keys does not count."""
    return _item("value", path, path=path, want=want)


def ini(path: str, want: dict[str, dict[str, str]]) -> Item:
    """An INI file with these sections, keys and values."""
    return _item("ini", path, path=path, want=want)


def has(path: str, pattern: str, name: str) -> Item:
    """The file has a match of the regular expression."""
    return _item("has", name, path=path, pattern=pattern)


def lacks(path: str, pattern: str, name: str, guard: bool = False) -> Item:
    """The file exists and has no match of the regular expression."""
    return _item("lacks", name, guard=guard, path=path, pattern=pattern)


def table(db: str, query: str, want: Sequence[Sequence[Any]], name: str, guard: bool = False) -> Item:
    """The query gives these rows; it runs on a copy, read-only, in a process of its own."""
    return _item("table", name, guard=guard, db=db, query=query, want=[list(row) for row in want])


def runs(
    takes: Sequence[str], cases: Sequence[tuple[list[str], str]], name: str, guard: bool = False, **given: str
) -> Item:
    """Python run with these arguments prints so, on copies of the files `takes` in a fresh workspace.

    `given` are further files there by name ("_" stands for the dot). The cases that hold are counted as a share.
    """
    files = {key.replace("_", "."): text for key, text in given.items()}
    listed = [{"argv": argv, "want": want} for argv, want in cases]
    return _item("runs", name, guard=guard, takes=list(takes), cases=listed, files=files)


def answer(want: str, numeric: bool, place: int = 0, places: int = 1) -> Item:
    """The final answer, or its part number `place` of `places` between semicolons."""
    name = "answer" if places == 1 else f"answer {place + 1}"
    return _item("answer", name, want=want, numeric=numeric, place=place, places=places)
