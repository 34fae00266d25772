"""The tools of one episode over its tables, and what they established."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from noria.core.errors import PolicyError
from noria.core.types import Tool
from noria.envs.tableqa.store import Evidence, Store
from noria.tokens.toolbox import Toolbox, tool

_OPS = ("=", "!=", "<", ">", "<=", ">=", "in")
_FNS: Mapping[str, str] = {
    "count": "count({0})", "sum": "sum({0})", "avg": "avg({0})", "min": "min({0})", "max": "max({0})",
    "range": "max({0}) - min({0})",
}  # fmt: skip
_CELL_CHARS, _DECIMALS = 40, 4


class Desk:
    """Typed tools and SQL over one store; `log` has the evidence of every call that went through."""

    def __init__(self, store: Store, log: tuple[Evidence, ...] = ()) -> None:
        self.store, self.log = store, log

    def box(self) -> Toolbox:
        """The tools."""
        return Toolbox([
            tool(self.columns, table="name of a table"),
            tool(self.filter, op=f"one of {' '.join(_OPS)}", value="for in: values between |", show="columns, or *"),
            tool(self.aggregate, fn=f"one of {' '.join(_FNS)}", by="column to group by", where="column of a condition"),
            tool(self.sql, query="one SELECT"),
        ])  # fmt: skip

    def columns(self, table: str) -> str:
        """Columns of a table and how many rows it has."""
        found = self.store.table(table)
        named = ", ".join(f"{name} {kind}" for name, kind in found["columns"])
        return f"{named}; {len(found['rows'])} rows"

    def filter(self, table: str, column: str, op: str, value: str, show: str = "*") -> str:
        """Rows that meet a condition."""
        shown = [self.store.column(table, name.strip()) for name in show.split(",")] if show.strip() != "*" else ["*"]
        condition, values = self._condition(table, column, op, value)
        return self._ask(f"select {', '.join(shown)} from {table} where {condition}", values)

    def aggregate(
        self, table: str, fn: str, column: str, by: str = "", where: str = "", op: str = "=", value: str = ""
    ) -> str:
        """Compute over rows, or over groups of them, highest first."""
        if fn not in _FNS:
            raise PolicyError(f"no fn {fn[:20]!r}: use one of {' '.join(_FNS)}")
        computed = _FNS[fn].format(self.store.column(table, column))
        condition, values = self._condition(table, where, op, value) if where else ("1 = 1", [])
        if not by:
            return self._ask(f"select {computed} from {table} where {condition}", values)
        group = self.store.column(table, by)
        order = f"group by {group} order by {computed} desc, {group}"
        return self._ask(f"select {group}, {computed} from {table} where {condition} {order}", values)

    def sql(self, query: str) -> str:
        """Run a query."""
        return self._ask(query, [])

    def _condition(self, table: str, column: str, op: str, value: str) -> tuple[str, list[Any]]:
        if op not in _OPS:
            raise PolicyError(f"no op {op[:20]!r}: use one of {' '.join(_OPS)}")
        name = self.store.column(table, column)
        kinds: dict[str, str] = dict(self.store.table(table)["columns"])
        values = [_typed(part.strip(), kinds[name]) for part in (value.split("|") if op == "in" else [value])]
        marks = f"({', '.join('?' for _ in values)})" if op == "in" else "?"
        return f"{name} {op} {marks}", values

    def _ask(self, query: str, values: list[Any]) -> str:
        _, evidence = self.store.ask(query, values)
        self.log += (evidence,)
        return "\n".join(",".join(map(_shown, row)) for row in evidence.rows) or "no rows"


@cache
def schemas() -> tuple[Tool, ...]:
    """The tools as a task shows them."""
    store = Store({})
    try:
        return Desk(store).box().schemas
    finally:
        store.close()


def _typed(text: str, kind: str) -> Any:
    """A value in the type of its column."""
    if kind == "text":
        return text
    try:
        number = float(text)
    except ValueError as fault:
        raise PolicyError(f"value must be a number: got {text[:20]!r}") from fault
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _shown(cell: Any) -> str:
    """A cell as the model sees it: short, numbers without idle zeros."""
    if isinstance(cell, float):
        return f"{cell:.{_DECIMALS}f}".rstrip("0").rstrip(".")
    return "null" if cell is None else str(cell)[:_CELL_CHARS]
