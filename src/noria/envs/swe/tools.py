"""The tools of one episode, over its workspace and within its time."""

from __future__ import annotations

from functools import cache

from noria.bases.desk import NOWHERE, Desk
from noria.core.errors import PolicyError
from noria.core.types import Tool
from noria.languages.base import DEPS
from noria.tokens.toolbox import Toolbox, tool

#: A single argument of a program holds 128 KiB at most.
MOST_COMMAND = 120_000
_ENV = ("/usr/bin/env", f"PATH={DEPS}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONHASHSEED=0", "TZ=UTC")


class Tools(Desk):
    """A shell and files."""

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

    def sh(self, command: str) -> str:
        """Run a shell command."""
        if not command.strip() or "\0" in command or len(command.encode("utf-8", "replace")) > MOST_COMMAND:
            raise PolicyError(f"command must have some text, no NUL, and {MOST_COMMAND} bytes at most")
        return self.run([*_ENV, "bash", "-c", f"exec 2>&1\n{command}"])


@cache
def schemas() -> tuple[Tool, ...]:
    """The tools as a task shows them."""
    return Tools(NOWHERE, 0.0, 0.0).box().schemas
