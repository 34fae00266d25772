"""Forms in which models write tool calls, and the way from each to the one that the house speaks and back.

    xml      <call name="edit"><line>3</line></call>                    Noria's own, see `tokens.calls`
    hermes   <tool_call>{"name": "edit", "arguments": {"line": 3}}</tool_call>
    qwen     <tool_call><function=edit><parameter=line>3</parameter></function></tool_call>

What a model writes is read in one pass from left to right: a tag inside an argument or a thought is text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from noria.core.errors import UserError
from noria.core.types import Tool
from noria.tokens import calls, form_hermes, form_qwen
from noria.tokens.calls import Call, Malformed

AUTO = "auto"
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


class Form(Protocol):
    """One way to write a call.

    `opens` begins every call and `closes` ends it; `named` ends what gives the tool's name. `marks` are texts by which
    a chat template teaches the form.
    """

    name: str
    opens: str
    closes: str
    named: re.Pattern[str]
    marks: tuple[str, ...]

    def write(self, call: Call, tool: Tool | None) -> str:
        """The text of a call; `tool` tells the types of its arguments."""
        ...

    def read(self, text: str, at: int) -> tuple[Call | Malformed, int]:
        """The call that opens at `at`, and where the text goes on."""
        ...


class Xml:
    """The house's own: nothing to translate."""

    name, opens, closes = "xml", "<call", "</call>"
    named = re.compile(">")
    marks: tuple[str, ...] = ()

    def write(self, call: Call, tool: Tool | None) -> str:
        return calls.rendered(call.name, call.args)

    def read(self, text: str, at: int) -> tuple[Call | Malformed, int]:
        raise AssertionError("text in the house's own form is not translated")


XML = Xml()
_FORMS: dict[str, Form] = {"xml": XML, "hermes": form_hermes.Hermes(), "qwen": form_qwen.Qwen()}
NAMES = (AUTO, *_FORMS)


def form_named(name: str, template_shows: str = "") -> Form:
    """A form by name; `auto` is the one that a template teaches, whose rendering of a tool is given.

    Raises:
        UserError: there is no such form.
    """
    if name == AUTO:
        taught = (f for f in (_FORMS["qwen"], _FORMS["hermes"]) if any(mark in template_shows for mark in f.marks))
        return next(taught, XML)
    if name not in _FORMS:
        raise UserError(f"call_form must be one of {', '.join(NAMES)}: got {name!r} - leave it out, or name one")
    return _FORMS[name]


def canonical(form: Form, text: str) -> str:
    """What a model wrote, with its calls in the house's own form; one that cannot be read says why in its place."""
    if form is XML:
        return text
    out: list[str] = []
    at = 0
    for start, is_thought in _places(form, text):
        if start < at:
            continue  # inside an argument
        if is_thought:
            end = _THOUGHT.match(text, start)
            assert end is not None
            out += _plain(form, text[at:start]), text[start : end.end()]
            at = end.end()
            continue
        call, end_at = form.read(text, start)
        out += _plain(form, text[at:start].removesuffix("\n")), _house(call)
        at = end_at
    return "".join([*out, _plain(form, text[at:])])


def written(form: Form, text: str, tools: Sequence[Tool] = ()) -> str:
    """A message in the house's own form as the model would write it; what holds a malformed call stays as it is."""
    if form is XML:
        return text
    by_name = {tool.name: tool for tool in tools}
    out = ""
    for part in calls.parts(text):
        if isinstance(part, str):
            out += part
        else:
            out += "\n" * bool(out and not out.endswith("\n")) + form.write(part, by_name.get(part.name))
    return out


def _places(form: Form, text: str) -> list[tuple[int, bool]]:
    """Where calls and thoughts may begin, and whether it is a thought."""
    found = re.finditer(f"{re.escape(form.opens)}|<think>", text)
    return [(each.start(), each[0] == "<think>") for each in found]


def _plain(form: Form, text: str) -> str:
    """Text between calls: what would be a call in the house's own form, or ends none, is refused."""
    strays = (form.closes, "<call", "</call>")
    if not any(stray in text for stray in strays):
        return text
    for stray in strays:
        text = text.replace(stray, "")
    sample = form.write(Call("tool", {"argument": "value"}), None)
    return text + calls.rendered_error(f"malformed call: write {sample}")


def _house(call: Call | Malformed) -> str:
    return calls.rendered_error(call.why) if isinstance(call, Malformed) else calls.rendered(call.name, call.args)
