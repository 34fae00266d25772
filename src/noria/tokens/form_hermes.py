"""Calls as JSON between tags: `<tool_call>{"name": "edit", "arguments": {"line": 3}}</tool_call>`.

The form of Hermes 2 Pro, which Qwen 2.5, Qwen 3 and others took over. Arguments have the types of JSON here and are
text in the house: what is no string is its JSON text there, and becomes a value again where the tool's type says so.
"""

from __future__ import annotations

import json
import re
from typing import Any

from noria.core.types import Tool
from noria.tokens.calls import Call, Malformed, is_torn, misnamed, resumed

#: JSON types that a value may be written in without quotes.
_BARE = ("integer", "number", "boolean", "object", "array", "null")


class Hermes:
    """See the module."""

    name, opens, closes = "hermes", "<tool_call>", "</tool_call>"
    named = re.compile(r'"arguments"\s*:')
    marks: tuple[str, ...] = ("<tool_call",)

    def write(self, call: Call, tool: Tool | None) -> str:
        """The text of a call; an argument stands without quotes if its tool's type is no string and it reads so."""
        kinds = {} if tool is None else {key: kind for key, (kind, _) in tool.parameters.items()}
        given = {key: _typed(value, kinds.get(key, "string")) for key, value in call.args.items()}
        body = json.dumps({"name": call.name, "arguments": given}, ensure_ascii=False)
        return f"{self.opens}\n{body}\n{self.closes}"

    def read(self, text: str, at: int) -> tuple[Call | Malformed, int]:
        """The call that opens at `at`, and where the text goes on."""
        start = at + len(self.opens)
        start += len(text[start:]) - len(text[start:].lstrip())
        try:
            found, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as fault:
            why = f'call must be JSON with "name" and "arguments": {fault}'
            return Malformed(why), resumed(text, start, self.opens, self.closes)
        end += len(text[end:]) - len(text[end:].lstrip())
        if not text.startswith(self.closes, end):
            why = f"call must end with {self.closes} after its JSON"
            return Malformed(why), resumed(text, end, self.opens, self.closes)
        return _call(found), end + len(self.closes)


def _call(found: Any) -> Call | Malformed:
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return Malformed('call must be a JSON object with a "name"')
    given = found.get("arguments") or {}
    if isinstance(given, str):  # a string of JSON, as the OpenAI API has it
        try:
            given = _DECODER.decode(given)
        except (ValueError, RecursionError) as fault:
            return Malformed(f"arguments of {found['name']!r} must be a JSON object: {fault}")
    if not isinstance(given, dict):
        return Malformed(f"arguments of {found['name']!r} must be a JSON object")
    if why := misnamed(found["name"], given):
        return Malformed(why)
    args = {key: _text(value) for key, value in given.items() if value is not None}
    torn = next((key for key, value in args.items() if is_torn(value)), None)
    if torn is not None:
        return Malformed(f"argument {torn!r} must be text: it holds half a surrogate pair")
    return Call(found["name"], args)


def _typed(value: str, kind: str) -> Any:
    if kind not in _BARE:
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if found is not None and not isinstance(found, str) and _text(found) == value else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse, strict=False)
