"""Tools over the files of a workspace, and a budget of seconds for its commands: for worlds whose tasks are files."""

from __future__ import annotations

from collections.abc import Sequence

from noria.core.errors import PolicyError, SandboxError
from noria.core.protocols import ExecResult, Refilled, Workspace
from noria.core.types import Observation
from noria.tokens.calls import is_torn

#: Where long observations go.
SPILLS = ".spill"
#: Characters of a file that are shown; what commands print is cut by the sandbox.
MOST_SHOWN = 60_000
#: Calls of one message at most.
MOST_CALLS = 16


class Desk:
    """Tools that share a workspace and a budget of seconds. A subclass offers them, with commands of its own.

    The workspace may be replaced by a copy of itself, so tools reach it through here.
    """

    def __init__(self, workspace: Workspace, command_s: float, budget_s: float, spills: int = 0) -> None:
        self.workspace, self.command_s, self.budget_s, self.spills = workspace, command_s, budget_s, spills

    def spill(self, text: str) -> str:
        """Put a text into a file of its own; "" where the disk has no room or something stands in the way."""
        path = f"{SPILLS}/{self.spills + 1}.txt"
        try:
            self.workspace.write(path, text)
        except PolicyError:
            return ""
        self.spills += 1
        return path

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

    def run(self, argv: Sequence[str]) -> str:
        """Run a command within the budget; what it told. Raises PolicyError where no time is left."""
        limit_s = self.may()
        done = self.workspace.run(argv, limit_s)
        self.budget_s -= done.seconds
        return told(done, limit_s)

    def may(self) -> float:
        """The seconds that a command has. Raises PolicyError where none are left."""
        if self.budget_s <= 0:
            raise PolicyError("no time is left for commands: give the final answer")
        return min(self.command_s, self.budget_s)


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


#: Stands in where a workspace is not needed, or not yet.
NOWHERE = _Nowhere()


def told(done: ExecResult, limit_s: float) -> str:
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


def refusal(message: str) -> Observation | None:
    """What a message hears whose calls are not read at all; None where they are."""
    if is_torn(message):
        return Observation("error: the message holds half a character, which no file can")
    if message.count("<call") > MOST_CALLS:
        return Observation(f"error: at most {MOST_CALLS} calls in one message")
    return None


def whole(workspace: Workspace) -> Refilled:
    """A workspace that gives its files all at once. Raises SandboxError: it does not."""
    if not isinstance(workspace, Refilled):
        raise SandboxError(f"{type(workspace).__name__} does not give its files all at once")
    return workspace
