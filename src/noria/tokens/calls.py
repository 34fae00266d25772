"""Tool calls as XML: `<call name="edit"><line>3</line><new>b</new></call>`.

Values are raw text (code may hold `<` and `&`): a value ends at the first closing tag of its own name. A
message may hold a `<think>…</think>` block, several calls, and free text (the answer).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from noria.core.errors import PolicyError

_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_OPEN = re.compile(r'<call name="([A-Za-z_][\w-]*)">')
_CLOSE = "</call>"
_ARG = re.compile(r"\s*<([A-Za-z_]\w*)>")


@dataclass(frozen=True, slots=True)
class Call:
    """One parsed tool call; every argument is text, the world converts it."""

    name: str
    args: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parsed:
    """An assistant message taken apart: what it thought, what it calls, what it says."""

    think: str
    calls: tuple[Call, ...]
    answer: str


def render_call(name: str, **args: object) -> str:
    """The text of one call, arguments in the order given."""
    inner = "".join(f"<{key}>{value}</{key}>" for key, value in args.items())
    return f'<call name="{name}">{inner}</call>'


def parse(message: str) -> Parsed:
    """Take a message apart.

    Raises:
        PolicyError: an unclosed block or a malformed call; the text tells the model what to mend.
    """
    think = "".join(part for part in _THINK.findall(message))
    rest = _THINK.sub("", message)
    if "<think>" in rest or "</think>" in rest:
        raise PolicyError("unclosed <think> block: close it with </think> before you act")
    calls: list[Call] = []
    answer: list[str] = []
    at = 0
    while found := _OPEN.search(rest, at):
        answer.append(rest[at : found.start()])
        call, at = _parse_call(rest, found)
        calls.append(call)
    answer.append(rest[at:])
    text = "".join(answer).strip()
    if "<call" in text or _CLOSE in text:
        raise PolicyError('malformed call: write <call name="tool"><argument>value</argument></call>')
    return Parsed(think.strip(), tuple(calls), text)


def _parse_call(text: str, opened: re.Match[str]) -> tuple[Call, int]:
    name, at = opened.group(1), opened.end()
    args: dict[str, str] = {}
    while not text.startswith(_CLOSE, at):
        tag = _ARG.match(text, at)
        if not tag:
            end = text.find(_CLOSE, at)
            if end >= 0 and not text[at:end].strip():
                at = end
                continue
            raise PolicyError(f"call of {name!r} is not closed: end it with </call>")
        key = tag.group(1)
        close = text.find(f"</{key}>", tag.end())
        if close < 0:
            raise PolicyError(f"argument {key!r} of {name!r} is not closed: end it with </{key}>")
        if key in args:
            raise PolicyError(f"argument {key!r} of {name!r} is given twice")
        args[key] = text[tag.end() : close]
        at = close + len(f"</{key}>")
    return Call(name, args), at + len(_CLOSE)
