"""A conversation with a user, beside a desk with tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from noria.bases.turn import error_line
from noria.core.errors import PolicyError, SandboxError
from noria.core.types import Message, Observation, Outcome
from noria.envs.tau2.desk import TRANSFER, Domain
from noria.envs.tau2.user import User, is_end
from noria.tokens.calls import Call, Malformed, hear


class Service:
    """Calls go to the desk, words to the user; it ends when the user does, or is passed on to somebody else.

    Graded is what the package's own scorer grades for these domains: the database must be what the task's actions make
    of it, and what is to be told must have been told. Its statements in natural language are graded by neither.
    """

    def __init__(self, domain: Domain, task: Mapping[str, Any], user: User, state: Any = None) -> None:
        self._domain, self._task, self._user = domain, task, user
        self._state = domain.state() if state is None else state
        self._scenario: Mapping[str, Any] = task["user_scenario"]["instructions"]
        self._said = [Message("user", user.first(self._scenario))]
        self._tools = {tool.name: tool for tool in domain.tools}
        self._over, self._fault = False, ""

    def act(self, message: str) -> Observation:
        """Do the calls of a message, or let the user hear it.

        Raises:
            SandboxError: nobody plays the user.
        """
        if self._over:
            return Observation("error: the episode is over", done=True)
        heard = hear(message)
        if heard.calls:
            lines = [self._line(call) for call in heard.calls]
            text = lines[0] if len(lines) == 1 else "\n".join(f"[{i}] {line}" for i, line in enumerate(lines, 1))
            return Observation(text, done=self._over)
        self._said.append(Message("assistant", heard.answer))
        try:
            answer = self._user.answer(self._scenario, self._said)
        except SandboxError as fault:
            self._fault = str(fault)
            raise
        self._said.append(Message("user", answer))
        self._over = is_end(answer)
        return Observation("" if self._over else answer, done=self._over)

    def grade(self) -> Outcome:
        """1 where the database is as it should be and all was told; unknown where the user failed."""
        if self._fault:
            return Outcome.unknown(self._fault)
        criteria = self._task["evaluation_criteria"] or {}
        right = self._domain.state()
        for action in criteria.get("actions") or ():
            try:
                self._domain.call(right, action["name"], action["arguments"])
            except PolicyError:
                pass  # what the ground truth tries in vain changes nothing
        is_same = bool(self._state.db.get_hash() == right.db.get_hash())
        said = "\n".join(m.content for m in self._said if m.role == "assistant").lower().replace(",", "")
        untold = [each for each in criteria.get("communicate_info") or () if each.lower() not in said]
        spoke = len(self._said) > 1 or self._over
        faults = [
            "" if is_same else "the database is not as it should be",
            f"the user was not told {untold[0]!r}" if untold else "",
            "" if spoke else "the user never got an answer",
        ]
        reason = "; ".join(fault for fault in faults if fault)
        parts = {"database": float(is_same), "told": float(not untold)}
        return Outcome(0.0 if reason else 1.0, parts, reason)

    def fork(self) -> Service:
        """An independent episode in the same state; a model that plays the user may answer it otherwise."""
        other = Service(self._domain, self._task, self._user, self._domain.copied(self._state))
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
            values = {key: _value(text, tool.parameters.get(key, ("string", ""))[0]) for key, text in call.args.items()}
            text = self._domain.call(self._state, call.name, values)
        except PolicyError as refusal:
            return error_line(str(refusal))
        self._over = self._over or call.name == TRANSFER
        return text


def _value(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise PolicyError(f"must be of type {kind}: got {text[:40]!r}") from None
