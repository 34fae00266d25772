"""Airline and retail: one database, and a user who only talks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noria.core.types import Tool
from noria.envs.tau2.calculator import calculated
from noria.envs.tau2.desk import Desk, Made, State
from noria.envs.tau2.sharing import differ

CALCULATE = "calculate"


class Shop(Desk):
    """Graded by the database alone."""

    def call(self, state: State, by: str, name: str, arguments: Mapping[str, Any]) -> str:
        if name == CALCULATE:
            state.made.append(Made(by, name, arguments))
            return calculated(str(arguments.get("expression", "")))
        return super().call(state, by, name, arguments)

    def faults(self, state: State, task: Mapping[str, Any]) -> dict[str, str]:
        other = differ(state.agent.db, self.expected(task).agent.db)
        return {"database": f"the database is not as it should be: {other}" if other else ""}

    def _tools(self) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
        return self._listed("tools", f"all_{self.name}_tools"), ()


class Airline(Shop):
    """Bookings of flights."""

    name, title = "airline", "Airline"


class Retail(Shop):
    """Orders of a shop."""

    name, title = "retail", "Retail"
