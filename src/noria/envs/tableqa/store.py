"""Tables in memory, read-only: what a query may do, what it read and what it gave.

A model's SQL runs under SQLite's authorizer: it may read the tables and compute, with a bound on steps and on the size
of a value; it can neither write, attach, nor load anything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noria.core.errors import PolicyError

_STEPS, _CHARS, _SQL_CHARS = 200_000, 100_000, 4_000
_FUNCTIONS = frozenset((
    "count", "sum", "avg", "min", "max", "total", "abs", "round", "length", "lower", "upper", "coalesce", "ifnull",
    "nullif", "trim", "substr", "instr", "like", "group_concat",
))  # fmt: skip
#: Rows that one call may give.
MAX_ROWS = 50
Cell = Any


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one successful call established: the columns that it read ("table.column"), and its rows."""

    read: frozenset[str]
    rows: tuple[tuple[Cell, ...], ...] = field(default=())


class Store:
    """The tables of one episode."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self.tables = tables
        self._touched: set[str] = set()
        # A statement kept by the module would not ask the authorizer again.
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, cached_statements=0)
        for name, table in tables.items():
            columns = ", ".join(f"{column} {kind}" for column, kind in table["columns"])
            self._connection.execute(f"create table {name} ({columns})")
            marks = ", ".join("?" for _ in table["columns"])
            self._connection.executemany(f"insert into {name} values ({marks})", table["rows"])
        self._connection.commit()
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _CHARS)
        self._connection.set_authorizer(self._allows)
        self._connection.set_progress_handler(lambda: 1, _STEPS)

    def ask(self, query: str, values: Sequence[str] = ()) -> tuple[list[str], Evidence]:
        """The names of the result's columns, and what it establishes.

        Raises:
            PolicyError: the query cannot be run, or gives too many rows.
        """
        self._touched = set()
        if len(query) > _SQL_CHARS:
            raise PolicyError(f"the query is too long: at most {_SQL_CHARS} characters")
        try:
            cursor = self._connection.execute(query, list(values))
            rows = cursor.fetchmany(MAX_ROWS + 1)
        except sqlite3.DatabaseError as fault:
            raise PolicyError(f"the query fails: {str(fault)[:80]}") from fault
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as fault:
            raise PolicyError("the query must be one SELECT over the tables") from fault
        if cursor.description is None:
            raise PolicyError("the query must be a SELECT")
        if len(rows) > MAX_ROWS:
            raise PolicyError(f"more than {MAX_ROWS} rows: ask for less")
        names = [str(column[0]) for column in cursor.description]
        return names, Evidence(frozenset(self._touched), tuple(tuple(row) for row in rows))

    def table(self, name: str) -> Mapping[str, Any]:
        """A table's columns and rows. Raises PolicyError where there is none of that name."""
        if name not in self.tables:
            raise PolicyError(f"no table {name[:20]!r}: there are {', '.join(self.tables)}")
        found: Mapping[str, Any] = self.tables[name]
        return found

    def column(self, table: str, name: str) -> str:
        """The name of a column. Raises PolicyError where the table has none of that name."""
        names = [column for column, _ in self.table(table)["columns"]]
        if name not in names:
            raise PolicyError(f"no column {name[:20]!r} in {table}: it has {', '.join(names)}")
        return name

    def close(self) -> None:
        """Give the memory back."""
        self._connection.close()

    def _allows(self, action: int, first: str | None, second: str | None, *rest: str | None) -> int:
        if action == sqlite3.SQLITE_READ and first in self.tables:
            if second:
                self._touched.add(f"{first}.{second}")
            return sqlite3.SQLITE_OK
        known = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS
        return sqlite3.SQLITE_OK if known or action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY
