"""The simulated services of multi-turn questions: the package's own classes, called by name with values.

Nothing that a model wrote is evaluated: a call is a method of one of the question's classes, found by name, and the
values of its arguments. Calls of the ground truth are Python texts, which are taken apart and hold literals only.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noria.bases.package import Package
from noria.core.errors import UserError, boundary
from noria.core.syntax import parse
from noria.envs.bfcl.data import Entry

_FOLDER = "eval_checker.multi_turn_eval.func_source_code"
_MODULES = {
    "GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api",
    "TwitterAPI": "posting_api", "TicketAPI": "ticket_api", "TradingBot": "trading_bot", "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}  # fmt: skip
_STATELESS = ("MathAPI",)


class Services:
    """The services of one question in one state."""

    def __init__(self, package: Package, entry: Entry) -> None:
        self.instances: dict[str, Any] = {}
        long = "long_context" in entry.category
        for name in entry.row["involved_classes"]:
            instance = vars(package.module(f"{_FOLDER}.{_MODULES[name]}"))[name]()
            if name not in _STATELESS:
                scenario = copy.deepcopy(entry.row["initial_config"].get(name, {}))
                instance._load_scenario(scenario, long_context=long)
            self.instances[name] = instance

    def method(self, name: str) -> Callable[..., Any] | None:
        """The method of that name; of several services the last that has it."""
        found = None
        for instance in self.instances.values():
            held = inspect.getattr_static(instance, name, None)
            if not name.startswith("_") and inspect.isfunction(held):
                found = held.__get__(instance)
        return found

    def call(self, name: str, positional: Sequence[Any], arguments: Mapping[str, Any]) -> str:
        """What a call gives, as a text: its own, JSON of a dict, else as Python prints it; an error's message."""
        method = self.method(name)
        if method is None:
            return f"Error during execution: name {name!r} is not defined"
        return boundary(
            lambda: _text(method(*positional, **arguments)), lambda fault: f"Error during execution: {fault}"
        )

    def differs_from(self, other: Services) -> str:
        """The first public attribute that is not the same, as `class.attribute`, "" where all are."""
        for name, right in other.instances.items():
            mine = vars(self.instances[name])
            for key, value in vars(right).items():
                if not key.startswith("_") and (key not in mine or mine[key] != value):
                    return f"{name}.{key}"
        return ""


def taken_apart(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name, positional and named arguments of a call of the ground truth. Raises UserError: it is no such call."""
    try:
        call = parse(text, "eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("no call")
        named = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        return call.func.id, [ast.literal_eval(each) for each in call.args], named
    except (SyntaxError, ValueError) as fault:
        raise UserError(f"path must hold sound data: the ground truth {text[:80]!r} is no call: {fault}") from None


def by_name(method: Callable[..., Any], positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of a call by their names."""
    names = list(inspect.signature(method).parameters)
    return dict(zip(names, positional, strict=False)) | dict(named)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return str(value)
