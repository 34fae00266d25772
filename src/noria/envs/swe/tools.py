"""The tools of one episode, over its workspace and within its time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from noria.core.errors import PolicyError
from noria.core.protocols import ExecResult, Workspace
from noria.core.types import Tool
from noria.languages.base import DEPS
from noria.tokens.toolbox import Toolbox, tool

#: Where long observations go.
SPILLS = ".spill"
#: Characters of a file that are shown; what commands print is cut by the sandbox.
MOST_SHOWN = 60_000
#: A single argument of a program holds 128 KiB at most.
MOST_COMMAND = 120_000
_ENV = ("/usr/bin/env", f"PATH={DEPS}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONHASHSEED=0", "TZ=UTC")


class Tools:
    """Tools that share a workspace and a budget of seconds."""

    def __init__(self, workspace: Workspace, command_s: float, budget_s: float, spills: int = 0) -> None:
        self.workspace, self.command_s, self.budget_s, self.spills = workspace, command_s, budget_s, spills

    def box(self) -> Toolbox:
        """The tools that a task offers."""
        return Toolbox([
            tool(self.sh, command="as in bash; the working folder is always the repository's root"),
            tool(self.read, parallel=True, path="relative to the repository"),
            tool(self.write, path="relative to the repository", text="all of it"),
            tool(self.edit, path="", old="text that stands once in the file", new="what takes its place"),
        ])  # fmt: skip

    def fork(self) -> Tools:
        """Other tools over a copy of the workspace."""
        return Tools(self.workspace.fork(), self.command_s, self.budget_s, self.spills)

    def spill(self, text: str) -> str:
        """Put a text into a file of its own; "" where the disk has no room or something stands in the way."""
        path = f"{SPILLS}/{self.spills + 1}.txt"
        try:
            self.workspace.write(path, text)
        except PolicyError:
            return ""
        self.spills += 1
        return path

    def sh(self, command: str) -> str:
        """Run a shell command."""
        if not command.strip() or "\0" in command or len(command.encode("utf-8", "replace")) > MOST_COMMAND:
            raise PolicyError(f"command must have some text, no NUL, and {MOST_COMMAND} bytes at most")
        if self.budget_s <= 0:
            raise PolicyError("no time is left for commands: give the final answer")
        limit_s = min(self.command_s, self.budget_s)
        done = self.workspace.run([*_ENV, "bash", "-c", f"exec 2>&1\n{command}"], limit_s)
        self.budget_s -= done.seconds
        return _told(done, limit_s)

    def read(self, path: str) -> str:
        """Show a file."""
        text = self.workspace.read(path).rstrip("\n")
        if len(text) > MOST_SHOWN:
            text = f"{text[:MOST_SHOWN]}\n(… {len(text) - MOST_SHOWN} more characters)"
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


@cache
def schemas() -> tuple[Tool, ...]:
    """The tools as a task shows them."""
    return Tools(NOWHERE, 0.0, 0.0).box().schemas


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


#: Stands in until an episode needs its workspace.
NOWHERE = _Nowhere()


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
