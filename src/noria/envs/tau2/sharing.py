"""Databases of the package whose rows are shared between episodes until one of them takes a row."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

_NONE = object()


class Shared(dict[str, Any]):
    """A table as a dict. Whoever takes a row, by its key or in passing, gets a copy that is this table's own.

    Only what hands out no row (its keys, its length, a dump by pydantic) sees the shared ones. `__iter__` is here
    because `dict(table)` and `{**table}` would otherwise pass the rows on without asking.
    """

    def __init__(self, rows: Mapping[str, Any]) -> None:
        super().__init__(rows)
        self._own: set[str] = set()

    def branch(self) -> Shared:
        """The same table for somebody else; rows that were this one's own are shared from now on."""
        other = Shared({})
        dict.update(other, dict.items(self))
        self._own = set()
        return other

    def differs_from(self, other: Shared) -> bool:
        """Whether a row is not the same in both, as JSON; rows that both share are not looked at."""
        if dict.keys(self) != dict.keys(other):
            return True
        pairs = ((dict.__getitem__(self, key), dict.__getitem__(other, key)) for key in dict.keys(self))
        return any(one is not two and dumped(one) != dumped(two) for one, two in pairs)

    def __getitem__(self, key: str) -> Any:
        row = super().__getitem__(key)
        if key not in self._own:
            row = copy.deepcopy(row)
            self[key] = row
        return row

    def __setitem__(self, key: str, row: Any) -> None:
        super().__setitem__(key, row)
        self._own.add(key)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._own.discard(key)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self:
            return default
        return self[key]

    def values(self) -> Any:
        self._take_all()
        return super().values()

    def items(self) -> Any:
        self._take_all()
        return super().items()

    def pop(self, key: str, default: Any = _NONE) -> Any:
        if key not in self and default is not _NONE:
            return default
        row = self[key]
        del self[key]
        return row

    def popitem(self) -> tuple[str, Any]:
        key = next(reversed(self), None)
        if key is None:
            raise KeyError("the table is empty")
        return key, self.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *given: Any, **named: Any) -> None:
        for key, row in dict(*given, **named).items():
            self[key] = row

    def clear(self) -> None:
        super().clear()
        self._own = set()

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def _take_all(self) -> None:
        for key in list(self):
            self[key]


def dumped(value: Any) -> str:
    """A row as the text of which the package takes its hash."""
    plain = value.model_dump() if isinstance(value, BaseModel) else value
    return json.dumps(plain, sort_keys=True, default=str)


def shared(database: BaseModel) -> BaseModel:
    """The same database for somebody else: rows are shared until one of both takes them, all else is copied.

    One that is not of `shared` itself must not be changed any more.
    """
    return type(database).model_construct(**{name: _field(value) for name, value in _fields(database)})


def differ(one: BaseModel, two: BaseModel) -> str:
    """The first table in which two databases of one kind are not the same, "" where they are equal."""
    for (name, mine), (_, other) in zip(_fields(one), _fields(two), strict=True):
        mine, other = _rows(mine), _rows(other)
        if isinstance(mine, Shared) and isinstance(other, Shared):
            is_other = mine.differs_from(other)
        else:
            is_other = dumped(mine) != dumped(other)
        if is_other:
            return name
    return ""


def _fields(database: BaseModel) -> list[tuple[str, Any]]:
    return [(name, vars(database)[name]) for name in type(database).model_fields]


def _field(value: Any) -> Any:
    if isinstance(value, Shared):
        return value.branch()
    if isinstance(value, dict):
        return Shared(value)
    if _holds_rows(value):
        rest = {name: copy.deepcopy(each) for name, each in _fields(value) if name != "data"}
        return type(value).model_construct(data=_field(vars(value)["data"]), **rest)
    return copy.deepcopy(value)


def _rows(value: Any) -> Any:
    return vars(value)["data"] if _holds_rows(value) else value


def _holds_rows(value: Any) -> bool:
    """Whether it is a table with rows in a field `data`, as banking has them."""
    return isinstance(value, BaseModel) and isinstance(vars(value).get("data"), dict)
