"""A conversation with a user, beside a desk with tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from noria.bases.turn import error_line
from noria.core.errors import PolicyError, SandboxError
from noria.core.types import Message, Observation, Outcome, Tool
from noria.envs.tau2.desk import TRANSFER, Desk, State, criteria_of
from noria.envs.tau2.user import Hands, User, is_end
from noria.tokens.calls import Call, Malformed, hear


class Service:
    """Calls go to the desk, words to the user; it ends when the user does, or is passed on to somebody else.

    Graded is what the package's own scorer grades for the domain, and that what is to be told was told. Statements in
    natural language are graded by neither.
    """

    def __init__(self, desk: Desk, task: Mapping[str, Any], user: User, state: State | None = None) -> None:
        self._desk, self._task, self._user = desk, task, user
        self._state = desk.state(task) if state is None else state
        self._scenario = scenario_of(task)
        self._said = [Message("user", user.first(self._scenario))]
        self._tools = {tool.name: tool for tool in desk.tools}
        self._over, self._fault = False, ""

    def act(self, message: str) -> Observation:
        """Do the calls of a message, or let the user hear it.

        Raises:
            SandboxError: nobody plays the user, or the package's data contradict themselves.
        """
        if self._over:
            return Observation("error: the episode is over", done=True)
        heard = hear(message)
        try:
            if heard.calls:
                lines = [self._line(call) for call in heard.calls]
                text = lines[0] if len(lines) == 1 else "\n".join(f"[{i}] {line}" for i, line in enumerate(lines, 1))
                return Observation(text, done=self._over)
            self._said.append(Message("assistant", heard.answer))
            hands = Hands(self._desk.user_tools, lambda name, given: self._desk.call(self._state, "user", name, given))
            answer = self._user.answer(self._scenario, self._said, hands)
        except SandboxError as fault:
            self._fault = str(fault)
            raise
        self._said.append(Message("user", answer))
        self._over = is_end(answer)
        return Observation("" if self._over else answer, done=self._over)

    def grade(self) -> Outcome:
        """1 where the state is as it should be and all was told; unknown where the user failed."""
        if self._fault:
            return Outcome.unknown(self._fault)
        try:
            found = self._desk.faults(self._state, self._task)
        except SandboxError as fault:
            return Outcome.unknown(str(fault))
        said = "\n".join(m.content for m in self._said if m.role == "assistant").lower().replace(",", "")
        untold = [each for each in criteria_of(self._task).get("communicate_info") or () if each.lower() not in said]
        found["told"] = f"the user was not told {untold[0]!r}" if untold else ""
        spoke = len(self._said) > 1 or self._over
        reason = "; ".join(filter(None, (*found.values(), "" if spoke else "the user never got an answer")))
        return Outcome(0.0 if reason else 1.0, {name: float(not fault) for name, fault in found.items()}, reason)

    def fork(self) -> Service:
        """An independent episode in the same state; a model that plays the user may answer it otherwise."""
        other = Service(self._desk, self._task, self._user, self._desk.copied(self._state))
        other._said, other._over, other._fault = list(self._said), self._over, self._fault
        return other

    def close(self) -> None:
        """Nothing is held."""

    def _line(self, call: Call | Malformed) -> str:
        if isinstance(call, Malformed):
            return error_line(call.why)
        tool = self._tools.get(call.name)
        if tool is None:
            return error_line(f"no tool {call.name}")
        try:
            text = self._desk.call(self._state, "assistant", call.name, values_of(call, tool))
        except PolicyError as refusal:
            return error_line(str(refusal))
        self._over = self._over or call.name.endswith(TRANSFER)
        return text


def scenario_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the user is told about themselves; where that is one text, it is how they want things."""
    told = task["user_scenario"]["instructions"]
    return told if isinstance(told, Mapping) else {"task_instructions": str(told)}


def values_of(call: Call, tool: Tool) -> dict[str, Any]:
    """The arguments of a call as values of the types that are described. Raises PolicyError: one is of another type."""
    return {key: _value(text, tool.parameters.get(key, ("string", ""))[0]) for key, text in call.args.items()}


def _value(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise PolicyError(f"must be of type {kind}: got {text[:40]!r}") from None
