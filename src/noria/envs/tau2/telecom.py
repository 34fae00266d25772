"""Telecom: lines and bills on one side, the user's phone on the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noria.core.errors import SandboxError
from noria.core.types import Tool
from noria.envs.tau2.desk import Desk, State, criteria_of


class Telecom(Desk):
    """Graded by what holds of line and phone at the end, and where the task says so by what was done."""

    name, title = "telecom", "Telecom"
    tasks_file = "tasks.json.gz"

    def copied(self, state: State) -> State:
        return State(self._branched(state.agent), self._branched(state.user), list(state.made))

    def call(self, state: State, by: str, name: str, arguments: Mapping[str, Any]) -> str:
        self._synced(state)
        return super().call(state, by, name, arguments)

    def faults(self, state: State, task: Mapping[str, Any]) -> dict[str, str]:
        criteria = criteria_of(task)
        self._synced(state)
        found = {"holds": ""}
        for each in criteria.get("env_assertions") or ():
            if self._does(state, each) != each["assert_value"]:
                found["holds"] = f"{each['func_name']}{each['arguments']} is not {each['assert_value']}"
                break
        if "ACTION" in criteria.get("reward_basis", ()):
            undone = self.left_undone(state, task)
            found["done"] = f"{undone} was not done" if undone else ""
        return found

    def _does(self, state: State, wanted: Mapping[str, Any]) -> Any:
        """Call what the data names, an assertion or a step of the beginning; an error is its message."""
        side = state.side(wanted["env_type"])
        try:
            return vars(type(side))[wanted["func_name"]](side, **wanted["arguments"])
        except self.refused as fault:
            return str(fault)

    def _policy(self) -> str:
        parts = [self._package.read(f"{self._data}/{name}.txt") for name in ("main_policy", "tech_support_manual")]
        return "\n\n".join(parts)

    def _tools(self) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
        agent = self._listed("tools", "all_telecom_agent_tools")
        return agent, self._listed("user_tools", "all_telecom_user_tools")

    def _read(self) -> State:
        user = self._class("User")(store=self._store(), instance="noria")
        user.initialize()
        return State(super()._read().agent, user)

    def _prepare(self, state: State, initial: Mapping[str, Any]) -> None:
        for action in initial.get("initialization_actions") or ():
            self._does(state, action)
            self._synced(state)

    def _synced(self, state: State) -> None:
        """Let the phone feel what was done to the line, and the desk what was paid."""
        environment = vars(self._package.module("tau2.telecom.environment"))["Environment"]
        try:
            environment(state.user, state.agent)
        except (self.refused, ValueError) as fault:
            raise SandboxError(f"line and phone do not fit together: {fault}") from fault
