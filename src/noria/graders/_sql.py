"""Two queries over one small SQLite database, in a child process: a query may run for ever."""

from __future__ import annotations

import sqlite3
from typing import Any

#: What a query may do: read, call functions, and nothing that leaves the database or changes it.
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_FORBIDDEN = frozenset({"load_extension", "readfile", "writefile", "randomblob", "zeroblob"})


def work(payload: dict[str, Any]) -> dict[str, Any]:
    """Rows of the wanted query and of the given one, or why there are none."""
    with sqlite3.connect(":memory:") as database:
        database.executescript(payload["script"])
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2**20)
        database.set_authorizer(_authorise)
        try:
            wanted = _rows(database, payload["wanted"], payload["max_rows"])
        except (sqlite3.Error, sqlite3.Warning) as fault:
            return {"broken": str(fault)}
        try:
            given = _rows(database, payload["given"], payload["max_rows"])
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as fault:
            return {"wanted": wanted, "error": str(fault)[:200]}
        return {"wanted": wanted, "given": given}


def _rows(database: sqlite3.Connection, query: str, most: int) -> list[list[Any]]:
    rows = database.execute(query).fetchmany(most + 1)
    return [[value.hex() if isinstance(value, bytes) else value for value in row] for row in rows]


def _authorise(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    allowed = action in _ALLOWED and (second or "").lower() not in _FORBIDDEN
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
