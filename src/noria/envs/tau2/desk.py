"""The desk of a domain: its database, its tools and its policy, from the package."""

from __future__ import annotations

import ast
import copy
import inspect
import json
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from noria.bases.package import Package
from noria.core.errors import PolicyError
from noria.core.types import Tool

DOMAINS = {"airline": "Airline", "retail": "Retail"}
TRANSFER, CALCULATE = "transfer_to_human_agents", "calculate"
_SIGNS = frozenset("0123456789+-*/(). ")
_MOST_DIGITS = 60


class Domain:
    """What all episodes of a domain share. Raises UserError: the package cannot be imported."""

    def __init__(self, package: Package, name: str) -> None:
        tau2 = f"tau2.{name}"
        self.policy = package.read(f"tau2/data/domains/{name}/policy.txt")
        self.tasks: Mapping[str, Mapping[str, Any]] = {
            str(task["id"]): task for task in json.loads(package.read(f"tau2/data/domains/{name}/tasks.json"))
        }
        self.ids: Mapping[str, Sequence[str]] = json.loads(package.read(f"tau2/data/domains/{name}/split_tasks.json"))
        module = package.module(f"{tau2}.{DOMAINS[name]}AgentTools")
        self._class = vars(module)[f"{DOMAINS[name]}AgentTools"]
        self._store = package.sibling("inspect_ai.util").Store
        self.refused: type[Exception] = package.sibling("inspect_ai.tool").ToolError
        self._database: Any = None
        wrapped = package.module(f"{tau2}.tools")
        described = package.sibling("inspect_ai.tool").ToolDef
        names = [key for key, _ in inspect.getmembers(self._class, inspect.isfunction) if _is_tool(key, wrapped)]
        self.tools = tuple(_tool(described(vars(wrapped)[key]())) for key in (*names, CALCULATE, TRANSFER))

    def state(self) -> Any:
        """The tools of the package over a database of their own, as it is at first."""
        made = self._class(store=self._store(), instance="noria")
        if self._database is None:
            made.initialize()
            self._database = made.db
        made.initialized = True
        made.db = copy.deepcopy(self._database)
        return made

    def copied(self, state: Any) -> Any:
        """The same state in other objects."""
        made = self._class(store=self._store(), instance="noria")
        made.initialized = True
        made.db = copy.deepcopy(state.db)
        return made

    def call(self, state: Any, name: str, arguments: Mapping[str, Any]) -> str:
        """What a tool says.

        Raises:
            PolicyError: it refuses, or cannot be called so.
        """
        if name == TRANSFER:
            return "Transfer successful"
        if name == CALCULATE:
            return calculated(str(arguments.get("expression", "")))
        try:
            given = vars(self._class)[name](state, **arguments)
        except (self.refused, TypeError, ValueError, KeyError, AttributeError, IndexError) as fault:
            raise PolicyError(f"{name}: {fault}"[:400]) from fault
        return given if isinstance(given, str) else json.dumps(given, default=str)


def calculated(expression: str) -> str:
    """The value of a sum of numbers, to the cent. Raises PolicyError: it is none."""
    if not expression or len(expression) > _MOST_DIGITS or not set(expression) <= _SIGNS or "**" in expression:
        raise PolicyError(
            f"expression must be a sum of numbers of {_MOST_DIGITS} signs at most: got {expression[:80]!r}"
        )
    try:
        return str(round(float(_value(expression)), 2))
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError) as fault:
        raise PolicyError(f"expression cannot be calculated: {fault}") from fault


_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


def _value(expression: str) -> float:
    def of(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return float(_OPERATORS[type(node.op)](of(node.left), of(node.right)))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return float(_OPERATORS[type(node.op)](of(node.operand)))
        raise ValueError("only + - * / are known")

    return of(ast.parse(expression.strip(), mode="eval").body)


def _is_tool(name: str, wrapped: Any) -> bool:
    return not name.startswith("_") and name != "initialize" and name in vars(wrapped)


def _tool(defined: Any) -> Tool:
    """A tool as the package describes it to models."""
    properties = defined.parameters.properties
    required = set(defined.parameters.required)
    shown = {}
    for key, each in properties.items():
        schema = each.model_dump(exclude_none=True)
        kinds = [schema.get("type"), *(part.get("type") for part in schema.get("anyOf") or ())]
        kind = next((str(k) for k in kinds if k and k != "null"), "string")
        notes = [str(schema.get("description", ""))]
        notes += [f"one of {json.dumps(schema['enum'])}"] if "enum" in schema else []
        notes += ["optional"] if key not in required else []
        shown[key] = (kind, "; ".join(note for note in notes if note))
    return Tool(defined.name, str(defined.description).strip().partition("\n")[0], shown)
