"""The specification of a domain: tables, operations, limits. Plain data, from which all else is derived.

Checks and effects are written in the small language of `terms`:

    Check("book.state == 'open'", "{book} is {book.state}, must be open")
    effects = ("book.reader = reader", "bin.stock = bin.stock - amount", "new loans: book=book, state='placed'")
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from noria.core.codec import dumps
from noria.core.types import Tool

Value = int | str
Row = dict[str, Value]
#: table -> id -> row
State = dict[str, dict[str, Row]]

NOBODY = ""
READ_KINDS = frozenset(("list", "get", "find", "count"))


@dataclass(frozen=True, slots=True)
class Field:
    """A typed field. `table` is what a reference points to; an `optional` one may be "" for nothing."""

    name: str
    kind: Literal["enum", "int", "ref"]
    values: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    table: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one kind; their ids are `letter` and a number. `grows` tells that calls make new rows."""

    name: str
    noun: str
    letter: str
    fields: tuple[Field, ...]
    grows: bool = False

    def field(self, name: str) -> Field | None:
        """The field of that name, or None."""
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: an id of `table`, a whole number of `low` to `high`, or one of `values`.

    `measures` is the "table.field" whose values a number is compared with or becomes: it tells a search which
    numbers are worth trying.
    """

    name: str
    kind: Literal["id", "int", "enum"]
    table: str = ""
    values: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    measures: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold before a call, and what a refusal says."""

    test: str
    says: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A tool. Reads (`kind` in `READ_KINDS`) look at `table`, `find` and `count` by the field of their parameter."""

    name: str
    kind: str
    doc: str
    table: str
    params: tuple[Param, ...] = ()
    checks: tuple[Check, ...] = ()
    effects: tuple[str, ...] = ()

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.kind in READ_KINDS

    def param(self, name: str) -> Param | None:
        """The parameter of that name, or None."""
        return next((param for param in self.params if param.name == name), None)


@dataclass(frozen=True, slots=True)
class Limit:
    """An invariant: at most `row.cap` rows of `table` point with `ref` to a row of the table `owner`."""

    table: str
    ref: str
    owner: str
    cap: str


@dataclass(frozen=True, slots=True)
class Pack:
    """People count the field in packs of `size`, the tools in single units."""

    table: str
    field: str
    unit: str
    pack: str
    size: int


@dataclass(frozen=True, eq=False)
class Domain:
    """A whole domain. `name` is unique for a seed and a number; `title` is what a reader sees.

    Compared by identity, so that caches by domain are cheap; `schema` tells equal domains.
    """

    name: str
    title: str
    tables: tuple[Table, ...]
    operations: tuple[Operation, ...]
    limits: tuple[Limit, ...] = ()
    packs: tuple[Pack, ...] = ()

    @cached_property
    def table(self) -> Mapping[str, Table]:
        """Tables by name."""
        return {table.name: table for table in self.tables}

    @cached_property
    def operation(self) -> Mapping[str, Operation]:
        """Operations by name."""
        return {operation.name: operation for operation in self.operations}

    @cached_property
    def writes(self) -> tuple[Operation, ...]:
        """Operations that change something."""
        return tuple(operation for operation in self.operations if not operation.reads)

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        """The operations as a model sees them."""
        return {
            operation.name: Tool(operation.name, operation.doc, {p.name: _shown(p, self) for p in operation.params})
            for operation in self.operations
        }

    @cached_property
    def schema(self) -> str:
        """SHA-256 of tables and operations without name and title: equal for equal domains."""
        content = [dumps(self.tables), dumps(self.operations), dumps(self.limits), dumps(self.packs)]
        return hashlib.sha256("\n".join(content).encode()).hexdigest()

    @cached_property
    def shape(self) -> str:
        """SHA-256 of the structure alone: the words for tables, fields, states and tools do not count."""
        tables = [[[field.kind, len(field.values), field.optional] for field in table.fields] for table in self.tables]
        operations = sorted(
            [operation.kind, [param.kind for param in operation.params], len(operation.checks), len(operation.effects)]
            for operation in self.operations
        )
        return hashlib.sha256(json.dumps([tables, operations, len(self.limits)]).encode()).hexdigest()


def signature(operation: Operation) -> str:
    """Name and typed parameters of a tool, as `lend_book(book: books, reader: readers)`."""
    typed = [f"{p.name}: {p.table or '|'.join(p.values) or f'{p.low}..{p.high}'}" for p in operation.params]
    return f"{operation.name}({', '.join(typed)})"


def _shown(param: Param, domain: Domain) -> tuple[str, str]:
    """JSON type and meaning of a parameter."""
    if param.kind == "int":
        return "integer", f"{param.low} to {param.high}"
    if param.kind == "enum":
        return "string", " or ".join(param.values)
    return "string", f"id of a {domain.table[param.table].noun}"
