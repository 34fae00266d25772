"""The tools of one episode, over its workspace and within its time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from noria.bases.desk import NOWHERE, Desk
from noria.core.errors import PolicyError
from noria.core.protocols import Workspace
from noria.core.types import Tool
from noria.languages.base import DEPS
from noria.tokens.toolbox import Toolbox, tool

#: A single argument of a program holds 128 KiB at most.
MOST_COMMAND = 120_000
_ENV = {"PATH": f"{DEPS}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONHASHSEED": "0", "TZ": "UTC"}


class Tools(Desk):
    """A shell and files. `variables`: of the environment of commands, beside those that all have."""

    def __init__(
        self, workspace: Workspace, command_s: float, budget_s: float, spills: int = 0,
        variables: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(workspace, command_s, budget_s, spills)
        self.variables = variables or {}

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
        return Tools(self.workspace.fork(), self.command_s, self.budget_s, self.spills, self.variables)

    def sh(self, command: str) -> str:
        """Run a shell command."""
        if not command.strip() or "\0" in command or len(command.encode("utf-8", "replace")) > MOST_COMMAND:
            raise PolicyError(f"command must have some text, no NUL, and {MOST_COMMAND} bytes at most")
        variables = {**_ENV, **self.variables}.items()
        words = (f"{name}={value}" for name, value in variables)
        return self.run(["/usr/bin/env", *words, "bash", "-c", f"exec 2>&1\n{command}"])


@cache
def schemas() -> tuple[Tool, ...]:
    """The tools as a task shows them."""
    return Tools(NOWHERE, 0.0, 0.0).box().schemas
