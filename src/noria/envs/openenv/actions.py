"""Actions of a server as typed tools: one `step` with the fields of its action schema, or the tools that it lists.

A server whose action is a tool call (its schema has `tool_name` and `arguments`) is asked for its list; each entry is
a tool then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from noria.core.errors import UserError
from noria.core.types import Tool
from noria.tokens.calls import misnamed
from noria.tokens.toolbox import Typed

STEP = "step"
LIST_TOOLS: Mapping[str, Any] = {"type": "list_tools"}
#: Fields of an observation that are not for the model, and of an action that are not its business.
_BOOKKEEPING = ("done", "reward", "metadata")
_KINDS = ("string", "integer", "number", "boolean", "array", "object")


@dataclass(frozen=True, slots=True)
class Actions:
    """What a server can be asked to do.

    lists     whether its actions are calls of tools that it lists
    required  names of the arguments without which a tool cannot be called, by tool
    """

    tools: tuple[Tool, ...]
    required: Mapping[str, tuple[str, ...]]
    lists: bool

    def typed(self, act: Callable[[Mapping[str, Any]], str]) -> list[Typed]:
        """Tools that send their action by `act`."""
        return [
            Typed(tool, partial(_sent, act, tool.name, self.lists), frozenset(self.required[tool.name]))
            for tool in self.tools
        ]


def calls_tools(schema: Mapping[str, Any]) -> bool:
    """Whether an action schema is that of a tool call."""
    return {"tool_name", "arguments"} <= set(schema.get("properties", {}))


def of_schema(schema: Mapping[str, Any]) -> Actions:
    """One tool with the fields of an action schema."""
    tool, required = _tool(STEP, str(schema.get("description", "")) or "Act in the environment.", schema)
    return Actions((tool,), {STEP: required}, lists=False)


def of_list(observation: Mapping[str, Any]) -> Actions:
    """The tools of a server's answer to a request for its list. Raises UserError: it has none."""
    listed = observation.get("tools")
    if not isinstance(listed, list) or not listed:
        raise UserError(f"url must lead to a server with tools: it lists {str(listed)[:80]} - choose another server")
    pairs = [
        _tool(str(each.get("name")), str(each.get("description") or ""), each.get("input_schema") or {})
        for each in listed
    ]
    return Actions(tuple(t for t, _ in pairs), {t.name: required for t, required in pairs}, lists=True)


def shown(observation: Mapping[str, Any]) -> str:
    """What the model reads of an observation: its only text as it stands, else the fields as JSON."""
    fields = {key: value for key, value in observation.items() if key not in _BOOKKEEPING and value is not None}
    if len(fields) == 1 and isinstance(only := next(iter(fields.values())), str):
        return only
    return json.dumps(fields, ensure_ascii=False) if fields else "ok"


def _tool(name: str, description: str, schema: Mapping[str, Any]) -> tuple[Tool, tuple[str, ...]]:
    properties = {k: v for k, v in schema.get("properties", {}).items() if k != "metadata"}
    fault = misnamed(name, properties)
    if fault:
        raise UserError(f"url must lead to a server whose actions can be called: {fault} - choose another server")
    parameters = {key: (_kind(each), _meaning(each)) for key, each in properties.items()}
    required = tuple(key for key in schema.get("required", ()) if key in properties)
    return Tool(name, description.strip().partition("\n")[0], parameters), required


def _kind(field: Mapping[str, Any]) -> str:
    """The JSON type of a field; of several the first that is not null, `object` where none is named."""
    for each in (field, *field.get("anyOf", ()), *field.get("oneOf", ())):
        if each.get("type") in _KINDS:
            return str(each["type"])
    values = field.get("enum", ())
    return "string" if values and all(isinstance(each, str) for each in values) else "object"


def _meaning(field: Mapping[str, Any]) -> str:
    limits = [f"{word} {field[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in field]
    if "enum" in field:
        limits.append(f"one of {json.dumps(field['enum'])}")
    return "; ".join(part for part in (str(field.get("description", "")), *limits) if part)


def _sent(act: Callable[[Mapping[str, Any]], str], name: str, lists: bool, **values: Any) -> str:
    return act({"type": "call_tool", "tool_name": name, "arguments": values} if lists else values)
