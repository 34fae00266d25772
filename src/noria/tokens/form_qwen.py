"""Calls as tags with parameters, the form of Qwen 3 Coder and its like.

    <tool_call>
    <function=edit>
    <parameter=line>
    3
    </parameter>
    </function>
    </tool_call>

A value is raw text between one line break and another, and ends at the first `</parameter>`. A value that holds this
tag is a JSON string under `<parameter=line enc="json">`, since the form has no other way to say it.
"""

from __future__ import annotations

import json
import re

from noria.core.types import Tool
from noria.tokens.calls import Call, Malformed, is_torn, misnamed, resumed

_FUNCTION = re.compile(r"\s*<function=([^>\n]*)>")
_PARAMETER = re.compile(r'\s*<parameter=([^>\n]*?)( enc="json")?>')
_END, _END_FUNCTION = "</parameter>", re.compile(r"\s*</function>\s*")


class Qwen:
    """See the module."""

    name, opens, closes = "qwen", "<tool_call>", "</tool_call>"
    named = re.compile(r"<function=[^>]*>")
    marks: tuple[str, ...] = ("<function=",)

    def write(self, call: Call, tool: Tool | None) -> str:
        """The text of a call; types play no part."""
        inner = "".join(_parameter(key, value) for key, value in call.args.items())
        return f"{self.opens}\n<function={call.name}>\n{inner}</function>\n{self.closes}"

    def read(self, text: str, at: int) -> tuple[Call | Malformed, int]:
        """The call that opens at `at`, and where the text goes on."""
        found, end = _read(text, at + len(self.opens))
        if isinstance(found, Call) and not text.startswith(self.closes, end):
            found = Malformed(f"call of {found.name!r} must end with </function> and {self.closes}")
        if isinstance(found, Malformed):
            return found, resumed(text, max(end, at + 1), self.opens, self.closes)
        return found, end + len(self.closes)


def _parameter(key: str, value: str) -> str:
    if _END in value:
        text = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
        return f'<parameter={key} enc="json">\n{text}\n{_END}\n'
    return f"<parameter={key}>\n{value}\n{_END}\n"


def _read(text: str, at: int) -> tuple[Call | Malformed, int]:
    """The call without its outer tags, and where it ends; of one that cannot be read, where it went wrong."""
    opened = _FUNCTION.match(text, at)
    if not opened:
        return Malformed("call must begin with <function=NAME>"), at
    name, at = opened[1], opened.end()
    args: dict[str, str] = {}
    while tag := _PARAMETER.match(text, at):
        key, close = tag[1], text.find(_END, tag.end())
        if close < 0:
            return Malformed(f"parameter {key!r} of {name!r} is not closed: end it with {_END}"), tag.end()
        if key in args:
            return Malformed(f"parameter {key!r} of {name!r} is given twice"), close
        value = text[tag.end() : close].removeprefix("\n").removesuffix("\n")
        if tag[2]:
            decoded = _decoded(value)
            if decoded is None:
                return Malformed(f"parameter {key!r} of {name!r} must be a JSON string"), close
            value = decoded
        args[key] = value
        at = close + len(_END)
    ended = _END_FUNCTION.match(text, at)
    if not ended:
        return Malformed(f"call of {name!r} is not closed: end it with </function>"), at
    why = misnamed(name, args)
    return (Malformed(why) if why else Call(name, args)), ended.end()


def _decoded(text: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) and not is_torn(value) else None
