"""Tool calls of the OpenAI API to the XML that models write, and back.

A message's content is everything that is no call, thoughts included: a client sends back content and calls, and the
model must find its own words again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from noria.core.errors import PolicyError
from noria.server.errors import wrong
from noria.server.schema import ChatMessage, ToolSpec
from noria.server.text import overlap
from noria.tokens.calls import parse, render_call
from noria.tokens.forms import XML, Form, canonical

OPEN = "<call"
#: JSON types whose values are not written as they stand.
PLAIN = ("string", None)


def written(message: ChatMessage, place: str) -> str:
    """An assistant message as the model would have written it.

    Raises:
        ApiError: the arguments of a call are no JSON object.
    """
    return message.words + "".join(
        _xml(call.function.name, call.function.arguments, f"{place}.tool_calls.{i}.function.arguments")
        for i, call in enumerate(message.tool_calls)
    )


def _xml(name: str, arguments: str, place: str) -> str:
    try:
        given = json.loads(arguments or "{}")
    except ValueError as fault:
        raise wrong(place, f"{place!r} must be a JSON object: {fault}") from fault
    if not isinstance(given, dict):
        raise wrong(place, f"{place!r} must be a JSON object: got {arguments[:40]!r}")
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
    return render_call(name, **values)


def taken_apart(text: str, tools: Sequence[ToolSpec], form: Form = XML) -> tuple[str, list[dict[str, str]]]:
    """Content, and calls as {"name", "arguments"}. A message with a malformed call is all content, as it is."""
    content, calls = _taken_apart(canonical(form, text), tools)
    return (content, calls) if calls else (text, [])


def _taken_apart(text: str, tools: Sequence[ToolSpec]) -> tuple[str, list[dict[str, str]]]:
    head = content_length(text)
    if head == len(text) or OPEN not in text[head:]:
        return text, []
    try:
        found = parse(text[head:])
    except PolicyError:
        return text, []
    if found.think or not found.calls:
        return text, []
    schemas = {tool.function.name: (tool.function.parameters or {}).get("properties", {}) for tool in tools}
    calls = [
        {"name": call.name, "arguments": json.dumps(_typed(call.args, schemas.get(call.name, {})))}
        for call in found.calls
    ]
    return text[:head] + found.answer, calls


def _typed(args: Mapping[str, str], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Values in the types of the tool's schema; what does not read as its type stays text."""
    out: dict[str, Any] = {}
    for key, value in args.items():
        schema = properties.get(key)
        kind = schema.get("type") if isinstance(schema, Mapping) else None
        out[key] = value
        if kind not in PLAIN:
            try:
                out[key] = json.loads(value)
            except ValueError:
                continue
    return out


def content_length(text: str, form: Form = XML) -> int:
    """Length of what is content in a growing message, whatever follows: up to the first call, or what may be one.

    A line's end before it counts to the call where the form puts calls on lines of their own.
    """
    start = 0
    if text.startswith("<think>"):
        start = text.find("</think>")
        if start < 0:
            return len(text)
    at = text.find(form.opens, start)
    length = at if at >= 0 else len(text) - overlap(text[start:], form.opens)
    return length - int(form is not XML and text[start:length].endswith("\n"))
