"""The tools of one episode, over its workspace and within its time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from noria.bases.desk import NOWHERE, Desk, told
from noria.bases.shell import writes
from noria.core.types import Tool
from noria.envs.claw.inside import SQL, interpreter
from noria.tokens.together import Ahead
from noria.tokens.toolbox import Toolbox, Typed, tool

#: What Python and SQL look like that may change files; a guess saves time and decides nothing.
_WRITES = re.compile(r"open|write|save|dump|to_|remove|unlink|rename|mkdir|copy|move|connect|system|subprocess")
_SELECTS = re.compile(r"\s*(select|with|explain|pragma\s+table_info)\b", re.IGNORECASE)
HARNESSES: dict[str, tuple[str, ...]] = {
    "full": ("sh", "read", "write", "edit", "python", "sql"),
    "shell": ("sh",),
}


class Bench(Desk):
    """The tools of both harnesses."""

    def box(self, harness: str) -> Toolbox:
        """The tools that a task offers."""
        return Toolbox([self._tools()[name] for name in HARNESSES[harness]])

    def fork(self) -> Bench:
        """Another bench over a copy of the workspace."""
        return Bench(self.workspace.fork(), self.command_s, self.budget_s, self.spills)

    def _tools(self) -> dict[str, Typed]:
        found = (
            tool(
                self.sh, ahead=lambda command: self._ahead(_shell(command)), looks=lambda command: not writes(command),
                command="as in sh; the working folder is always the workspace",
            ),
            tool(self.read, parallel=True, path="relative to the workspace"),
            tool(self.write, path="relative to the workspace", text="all of it"),
            tool(self.edit, path="", old="text that stands once in the file", new="what takes its place"),
            tool(
                self.python, ahead=lambda code: self._ahead(_python(code)),
                looks=lambda code: not _WRITES.search(code), code="what it prints is shown",
            ),
            tool(
                self.sql, ahead=lambda db, query, out="": self._ahead(_sql(db, query, out)),
                looks=lambda db, query, out="": not out and bool(_SELECTS.match(query)),
                db="SQLite file", query="one statement", out="CSV file for the rows, if any",
            ),
        )  # fmt: skip
        return {each.schema.name: each for each in found}

    def sh(self, command: str) -> str:
        """Run a shell command."""
        return self.run(_shell(command))

    def python(self, code: str) -> str:
        """Run Python."""
        return self.run(_python(code))

    def sql(self, db: str, query: str, out: str = "") -> str:
        """Run SQL on a database."""
        return self.run(_sql(db, query, out))

    def _ahead(self, argv: Sequence[str]) -> Ahead:
        """Run a command on a copy of the workspace, beside others."""
        limit_s, before = self.may(), self.workspace
        copy = before.fork()
        done = copy.run(argv, limit_s)

        def keep() -> None:
            self.may()
            self.budget_s -= done.seconds
            if done.changed:
                self.workspace = copy
                before.close()
            else:
                copy.close()

        return Ahead(told(done, limit_s), done.changed, keep, copy.close)


def _shell(command: str) -> list[str]:
    return ["sh", "-c", command]


def _python(code: str) -> list[str]:
    return interpreter("-c", code)


def _sql(db: str, query: str, out: str) -> list[str]:
    return interpreter("-I", "-S", "-c", SQL, db, query, out)


@cache
def schemas(harness: str) -> tuple[Tool, ...]:
    """The tools of a harness as a task shows them."""
    return Bench(NOWHERE, 0.0, 0.0).box(harness).schemas
