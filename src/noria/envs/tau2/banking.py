"""Banking: a desk that must look up in documents how things are done, and with which hidden tools."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Mapping
from typing import Any

import regex

from noria.core.errors import PolicyError
from noria.core.types import Tool
from noria.envs.tau2.desk import Desk, Made, State, criteria_of
from noria.envs.tau2.sharing import differ

GREP = "grep"
#: Documents that a search shows, as the package's own does.
MOST_FOUND = 10
#: Characters of a pattern, and seconds that one search may take.
_MOST_CHARS, _SEARCH_S = 500, 5.0
_PART = re.compile(r"\{\{component:(\w+)\}\}")


class Banking(Desk):
    """Agent and user share one database. Graded by it, or where the task says so by what was done."""

    name, title, folder, prefix = "banking", "Banking", "banking_knowledge", "banking_"
    splits_file = ""

    def copied(self, state: State) -> State:
        agent, user = self._branched(state.agent), self._branched(state.user)
        user.db = agent.db
        return State(agent, user, list(state.made))

    def call(self, state: State, by: str, name: str, arguments: Mapping[str, Any]) -> str:
        if by == "assistant" and name.removeprefix(self.prefix) == GREP:
            state.made.append(Made(by, GREP, arguments))
            return self._found(str(arguments.get("pattern", "")))
        return super().call(state, by, name, arguments)

    def faults(self, state: State, task: Mapping[str, Any]) -> dict[str, str]:
        basis = criteria_of(task).get("reward_basis", ())
        found = {}
        if "ACTION" in basis:
            undone = self.left_undone(state, task)
            found["done"] = f"{undone} was not done" if undone else ""
        if "DB" in basis:
            other = differ(state.agent.db, self.expected(task).agent.db)
            found["database"] = f"the database is not as it should be: {other}" if other else ""
        return found

    def _policy(self) -> str:
        text = self._package.read(f"{self._data}/prompts/grep_only.md")
        return _PART.sub(lambda part: self._package.read(f"{self._data}/prompts/components/{part[1]}.md"), text)

    def _tools(self) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
        self._documents: list[Mapping[str, str]] = json.loads(self._package.read(f"{self._data}/documents.json.gz"))
        agent = (*self._listed("tools", "all_banking_agent_tools"), *self._described("tools", ["banking_grep"]))
        return agent, self._listed("user_tools", "all_banking_user_tools")

    def _read(self) -> State:
        agent = super()._read().agent
        user = self._class("User")(store=self._store(), instance="noria")
        user.db = agent.db
        user.initialized = True
        return State(agent, user)

    def _prepare(self, state: State, initial: Mapping[str, Any]) -> None:
        if initial:
            begun = vars(self._package.module("tau2.data_model.tasks"))["InitialState"].model_validate(
                copy.deepcopy(dict(initial))  # the rows that it brings are put into the database as they are
            )
            self._package.module("tau2.banking.environment").apply_initial_state(state.agent, state.user, begun)

    def _found(self, pattern: str) -> str:
        """The documents with most matches, whole. Raises PolicyError: a pattern that is too long, or takes too long."""
        if not pattern.strip():
            return f"No matches found for pattern: {pattern}"
        if len(pattern) > _MOST_CHARS:
            raise PolicyError(f"pattern must have {_MOST_CHARS} characters at most: got {len(pattern)}")
        until = time.monotonic() + _SEARCH_S
        try:
            wanted = regex.compile(pattern, regex.IGNORECASE)
        except regex.error:
            wanted = regex.compile(regex.escape(pattern), regex.IGNORECASE)
        try:
            counts = [
                len(wanted.findall(each["content"], timeout=max(0.01, until - time.monotonic())))
                for each in self._documents
            ]
        except TimeoutError:
            raise PolicyError("pattern must be one that is searched in seconds: this one takes too long") from None
        order = sorted((at for at, count in enumerate(counts) if count), key=lambda at: -counts[at])
        shown = [
            f"{place}. {self._documents[at]['title']}\n   ID: {self._documents[at]['id']}\n"
            f"   Score: {counts[at]:.4f}\n   Content: {self._documents[at]['content']}\n"
            for place, at in enumerate(order[:MOST_FOUND], 1)
        ]
        return "\n".join(shown) or f"No matches found for pattern: {pattern}"
