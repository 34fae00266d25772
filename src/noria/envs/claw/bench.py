"""The tools of one episode, over its workspace and within its time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from noria.bases.shell import writes
from noria.core.errors import PolicyError
from noria.core.protocols import ExecResult, Workspace
from noria.core.types import Tool
from noria.envs.claw.inside import SQL, interpreter
from noria.tokens.together import Ahead
from noria.tokens.toolbox import Toolbox, Typed, tool

#: Where long observations go.
SPILLS = ".spill"
#: Characters of a file that are shown; commands are cut by the sandbox.
_MAX_SHOWN = 60_000
#: What Python and SQL look like that may change files; a guess saves time and decides nothing.
_WRITES = re.compile(r"open|write|save|dump|to_|remove|unlink|rename|mkdir|copy|move|connect|system|subprocess")
_SELECTS = re.compile(r"\s*(select|with|explain|pragma\s+table_info)\b", re.IGNORECASE)
HARNESSES: dict[str, tuple[str, ...]] = {
    "full": ("sh", "read", "write", "edit", "python", "sql"),
    "shell": ("sh",),
}


class Bench:
    """Tools that share a workspace and a budget of seconds.

    The workspace may be replaced by a copy of itself, so tools reach it through here.
    """

    def __init__(self, workspace: Workspace, command_s: float, budget_s: float, spills: int = 0) -> None:
        self.workspace, self.command_s, self.budget_s, self.spills = workspace, command_s, budget_s, spills

    def box(self, harness: str) -> Toolbox:
        """The tools that a task offers."""
        return Toolbox([self._tools()[name] for name in HARNESSES[harness]])

    def fork(self) -> Bench:
        """Another bench over a copy of the workspace."""
        return Bench(self.workspace.fork(), self.command_s, self.budget_s, self.spills)

    def spill(self, text: str) -> str:
        """Put a text into a file of its own; "" where the disk has no room or something stands in the way."""
        path = f"{SPILLS}/{self.spills + 1}.txt"
        try:
            self.workspace.write(path, text)
        except PolicyError:
            return ""
        self.spills += 1
        return path

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
        return self._run(_shell(command))

    def read(self, path: str) -> str:
        """Show a file."""
        text = self.workspace.read(path).rstrip("\n")
        if len(text) > _MAX_SHOWN:
            text = f"{text[:_MAX_SHOWN]}\n(… {len(text) - _MAX_SHOWN} more characters)"
        return text or "(empty)"

    def write(self, path: str, text: str) -> str:
        """Make or replace a file."""
        self.workspace.write(path, text)
        return "ok"

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace a text in a file."""
        text = self.workspace.read(path)
        count = text.count(old) if old else 0
        if count != 1:
            raise PolicyError(f"old must stand in {path} once: it is there {count} times")
        self.workspace.write(path, text.replace(old, new))
        return "ok"

    def python(self, code: str) -> str:
        """Run Python."""
        return self._run(_python(code))

    def sql(self, db: str, query: str, out: str = "") -> str:
        """Run SQL on a database."""
        return self._run(_sql(db, query, out))

    def _run(self, argv: Sequence[str]) -> str:
        limit_s = self._may()
        done = self.workspace.run(argv, limit_s)
        self.budget_s -= done.seconds
        return _told(done, limit_s)

    def _ahead(self, argv: Sequence[str]) -> Ahead:
        """Run a command on a copy of the workspace, beside others."""
        limit_s, before = self._may(), self.workspace
        copy = before.fork()
        done = copy.run(argv, limit_s)

        def keep() -> None:
            self._may()
            self.budget_s -= done.seconds
            if done.changed:
                self.workspace = copy
                before.close()
            else:
                copy.close()

        return Ahead(_told(done, limit_s), done.changed, keep, copy.close)

    def _may(self) -> float:
        """The seconds that a command has. Raises PolicyError where none are left."""
        if self.budget_s <= 0:
            raise PolicyError("no time is left for commands: give the final answer")
        return min(self.command_s, self.budget_s)


def _shell(command: str) -> list[str]:
    return ["sh", "-c", command]


def _python(code: str) -> list[str]:
    return interpreter("-c", code)


def _sql(db: str, query: str, out: str) -> list[str]:
    return interpreter("-I", "-S", "-c", SQL, db, query, out)


@cache
def schemas(harness: str) -> tuple[Tool, ...]:
    """The tools of a harness as a task shows them."""
    return Bench(_NONE, 0.0, 0.0).box(harness).schemas


class _Nowhere:
    """A workspace of schemas, which never run."""

    def read(self, path: str) -> str:
        raise PolicyError("no workspace")

    def write(self, path: str, text: str) -> None:
        raise PolicyError("no workspace")

    def run(self, argv: Sequence[str], timeout_s: float) -> ExecResult:
        raise PolicyError("no workspace")

    def fork(self) -> _Nowhere:
        return self

    def close(self) -> None:
        """Nothing is held."""


_NONE = _Nowhere()


def _told(done: ExecResult, limit_s: float) -> str:
    """What a command printed, and how it ended where that is not well."""
    lines = [text.rstrip("\n") for text in (done.stdout, done.stderr) if text.rstrip("\n")]
    if done.timed_out:
        lines.append(f"(stopped after {limit_s:g} s)")
    elif done.killed == "disk":
        lines.append("(too many or too large files: nothing was kept)")
    elif done.killed:
        lines.append(f"(killed: {done.killed})")
    elif done.code:
        lines.append(f"(exit {done.code})")
    return "\n".join(lines) or "ok"
