"""SQL: the query gives the same rows as the wanted one, on a database that no task shows in full.

Both run on a fresh SQLite database in a child process. A query may only read.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.types import Outcome
from noria.graders._children import Children, TooSlow
from noria.graders._fences import last_block
from noria.graders.base import ByAnswer, Case, Example, Given, need_children, outcome, spec_of

NEEDS = ("children",)
_SCRIPT = "CREATE TABLE t(name TEXT, n INTEGER); INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 2), ('d', NULL);"


class Config(Checked):
    """How queries are run and compared."""

    timeout_s: float = Field(default=5.0, gt=0, le=600, description="processor seconds of both queries; then unknown")
    digits: int = Field(default=6, ge=0, le=15, description="decimal places in which numbers must agree")
    max_rows: int = Field(default=2000, ge=1, le=100_000, description="a query with more rows is wrong")
    max_chars: int = Field(default=20_000, ge=1, description="a longer query is wrong unread")


class Spec(Checked):
    """What a right answer is."""

    script: str = Field(min_length=1, description="SQL that makes the database")
    query: str = Field(min_length=1, description="a query that gives the rows wanted")
    order: bool = Field(default=False, description="whether the order of rows counts")


EXAMPLES = (
    Example(
        {"script": _SCRIPT, "query": "SELECT name FROM t WHERE n = 2"},
        ("SELECT name FROM t WHERE n > 1 ORDER BY name DESC", "So:\n```sql\nselect name from t where n in (2);\n```"),
        (
            "SELECT name FROM t", "SELECT n FROM t WHERE n = 2", "", "DROP TABLE t", "SELECT name FROM t WHERE n =",
            "SELECT name FROM t WHERE n = 2; SELECT 1", "ATTACH ':memory:' AS x", "DELETE FROM t RETURNING name",
        ),
    ),
    Example(
        {"script": _SCRIPT, "query": "SELECT name FROM t ORDER BY n, name", "order": True},
        ("SELECT name FROM t ORDER BY n ASC, name ASC",),
        ("SELECT name FROM t ORDER BY name",),
    ),
)  # fmt: skip


class Sql(ByAnswer):
    """See the module."""

    def __init__(self, config: Config, children: Children) -> None:
        self._config, self._children = config, children

    async def grade(self, case: Case) -> Outcome:
        """1 if the rows are the same.

        Raises:
            UserError: the wanted query fails.
        """
        spec, config = spec_of(Spec, case), self._config
        block = last_block(case.answer, ("sql", "sqlite"))
        query = (case.answer if block is None else block).strip()
        if not query or len(query) > config.max_chars:
            return outcome(False, "no query" if not query else f"longer than {config.max_chars} characters")
        asked = {"script": spec.script, "wanted": spec.query, "given": query, "max_rows": config.max_rows}
        try:
            found = await self._children.run("_sql", asked, config.timeout_s)
        except TooSlow as fault:
            return Outcome.unknown(f"sql: {fault}")
        if "broken" in found:
            raise UserError(f"spec.query must run on spec.script: {found['broken']} - mend the task")
        if "error" in found:
            return outcome(False, f"the query fails: {found['error']}", {"runs": 0.0, "rows": 0.0})
        given, wanted = (self._rows(found[key], spec.order) for key in ("given", "wanted"))
        same = given == wanted and len(given) <= config.max_rows
        reason = "the same rows" if same else f"{len(given)} rows, not the {len(wanted)} wanted"
        return outcome(same, reason, {"runs": 1.0, "rows": float(same)})

    def harmless(self, case: Case) -> str:
        """The wanted query."""
        return spec_of(Spec, case).query

    async def close(self) -> None:
        """The children are the router's."""

    def _rows(self, rows: list[list[Any]], order: bool) -> list[str]:
        digits = self._config.digits
        plain = [json.dumps([_rounded(value, digits) for value in row]) for row in rows]
        return plain if order else sorted(plain)


def _rounded(value: Any, digits: int) -> Any:
    return round(float(value), digits) if isinstance(value, int | float) else value


def build(config: Config, given: Given) -> Sql:
    """A grader. Raises UserError where no child processes are given."""
    return Sql(config, need_children(given, "sql"))
