"""Messages of a model carried out on a state: parsing, the tools that a task shows, typed refusals, short answers."""

from __future__ import annotations

from collections.abc import Callable

from noria.bases.turn import carried_out
from noria.core.types import Task
from noria.envs.tooluse.backend import backend_of
from noria.envs.tooluse.rules import copy_of
from noria.envs.tooluse.spec import Domain, State
from noria.envs.tooluse.tasks import ASK, SUBMIT, start_of
from noria.tokens.calls import Call

_MAX_CALLS = 12
_MAX_LINE_CHARS = 600


class Desk:
    """One task's state and whoever answers `ask`. Nothing that a model writes raises."""

    def __init__(self, domain: Domain, task: Task, ask: Callable[[str], str], state: State | None = None) -> None:
        self.domain, self.task, self._ask = domain, task, ask
        self.state = copy_of(state if state is not None else start_of(task))
        self._shown = {tool.name for tool in task.tools}

    def copy(self) -> Desk:
        """An independent desk in the same state."""
        return Desk(self.domain, self.task, self._ask, self.state)

    def run(self, message: str) -> tuple[list[str], bool]:
        """The answers to a message's calls in order, one line each, and whether it ended the work."""
        ended = False

        def do(call: Call) -> str:
            nonlocal ended
            ended = call.name == SUBMIT and not call.args
            return "" if ended else self.call(call)[:_MAX_LINE_CHARS]

        # Whoever answers may be a model somewhere, and an answer depends on nothing but its question.
        asks = lambda call: call.name == ASK and ASK in self._shown  # noqa: E731
        lines = carried_out(message, do, lambda: ended, f"no call; call a tool, end with {SUBMIT}", _MAX_CALLS, asks)
        return (lines[:-1] if ended else lines), ended

    def call(self, call: Call) -> str:
        """The line that one call is answered with."""
        if call.name not in self._shown:
            return f"error: no tool {call.name[:24]!a}"
        if call.name == SUBMIT:
            return f"error: {SUBMIT} takes no argument"
        if call.name != ASK:
            return backend_of(self.domain).call(self.state, call.name, call.args)
        if set(call.args) != {"about"}:
            return f"error: {ASK} takes about"
        return "user: " + self._ask(call.args["about"])
