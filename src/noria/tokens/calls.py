"""Tool calls as XML: `<call name="edit"><line>3</line><new>b</new></call>`.

Values are raw text (code may hold `<` and `&`): a value ends at the first closing tag of its own name. A value that
holds this tag or one of a thought is written as a JSON string instead, `<new enc="json">"…"</new>`. A message may hold
a `<think>…</think>` block, several calls, and free text (the answer).

This is what the house speaks, whatever a model writes: `tokens.forms` translates. A call that could not be read there
stands as `<call error>why</call>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from noria.core.errors import PolicyError

_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_OPEN = re.compile(r'<call name="([A-Za-z_][\w-]*)">')
_CLOSE = "</call>"
_ARG = re.compile(r'\s*<([A-Za-z_]\w*)( enc="json")?>')
_ERROR = re.compile(r"<call error>(.*?)</call>", re.DOTALL)
_THINK_OR_CALL = re.compile(r"(<think>.*?</think>)|<call", re.DOTALL)
_NAME, _KEY = re.compile(r"[A-Za-z_][\w-]*"), re.compile(r"[A-Za-z_]\w*")
_UNCLOSED = "unclosed <think> block: close it with </think> before you act"
_MALFORMED = 'malformed call: write <call name="tool"><argument>value</argument></call>'


@dataclass(frozen=True, slots=True)
class Call:
    """One parsed tool call; every argument is text, the world converts it."""

    name: str
    args: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Malformed:
    """A call that cannot be read, and why, in words for the model."""

    why: str


@dataclass(frozen=True, slots=True)
class Heard:
    """An assistant message taken apart call by call; those that cannot be read keep their places."""

    think: str
    calls: tuple[Call | Malformed, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """An assistant message taken apart: what it thought, what it calls, what it says."""

    think: str
    calls: tuple[Call, ...]
    answer: str


def render_call(name: str, **args: object) -> str:
    """The text of one call, arguments in the order given."""
    return rendered(name, args)


def rendered(name: str, args: Mapping[str, object]) -> str:
    """The text of one call whose arguments may have any name."""
    inner = "".join(_written(key, str(value)) for key, value in args.items())
    return f'<call name="{name}">{inner}</call>'


def rendered_error(why: str) -> str:
    """The text that stands for a call which cannot be read."""
    return f"<call error>{why.replace('</call>', '< /call>')}</call>"


def _written(key: str, value: str) -> str:
    if not any(tag in value for tag in (f"</{key}>", "<think>", "</think>")):
        return f"<{key}>{value}</{key}>"
    text = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    return f'<{key} enc="json">{text}</{key}>'


def misnamed(name: str, keys: Iterable[str]) -> str:
    """Why a call of this name with these arguments cannot be written, "" if it can."""
    if not _NAME.fullmatch(name):
        return f"tool must have a name of letters, digits, _ and -: got {name[:40]!r}"
    bad = next((key for key in keys if not _KEY.fullmatch(key)), None)
    return "" if bad is None else f"argument of {name!r} must be named by letters, digits and _: got {bad[:40]!r}"


def parse(message: str) -> Parsed:
    """Take a message apart.

    Raises:
        PolicyError: an unclosed block or a malformed call; the text tells the model what to mend.
    """
    think = "".join(part for part in _THINK.findall(message))
    rest = _THINK.sub("", message)
    if "<think>" in rest or "</think>" in rest:
        raise PolicyError(_UNCLOSED)
    calls: list[Call] = []
    answer: list[str] = []
    at = 0
    while found := _OPEN.search(rest, at):
        answer.append(rest[at : found.start()])
        call, at = _parse_call(rest, found)
        calls.append(call)
    answer.append(rest[at:])
    text = "".join(answer).strip()
    if told := _ERROR.search(text):
        raise PolicyError(told[1])
    if "<call" in text or _CLOSE in text:
        raise PolicyError(_MALFORMED)
    return Parsed(think.strip(), tuple(calls), text)


def hear(message: str) -> Heard:
    """Take a message apart and go on after what cannot be read; never raises."""
    think = "".join(part for part in _THINK.findall(message)).strip()
    rest = _THINK.sub("", message)
    if "<think>" in rest or "</think>" in rest:
        return Heard(think, (Malformed(_UNCLOSED),), "")
    calls: list[Call | Malformed] = []
    answer: list[str] = []
    at = 0
    while (start := rest.find("<call", at)) >= 0:
        answer.append(rest[at:start])
        call, at = _heard(rest, start)
        calls.append(call)
    answer.append(rest[at:])
    return Heard(think, tuple(calls), "".join(answer).replace(_CLOSE, "").strip())


def _heard(text: str, start: int) -> tuple[Call | Malformed, int]:
    """The call that begins at `start`, and where to go on."""
    if told := _ERROR.match(text, start):
        return Malformed(told[1]), told.end()
    why = _MALFORMED
    if opened := _OPEN.match(text, start):
        try:
            return _parse_call(text, opened)
        except PolicyError as fault:
            why = str(fault)
    return Malformed(why), resumed(text, start + 1, "<call", _CLOSE)


def parts(message: str) -> list[Call | str]:
    """A message as text and calls in turn; thoughts, and calls that cannot be read, are text."""
    out: list[Call | str] = []
    at = done = 0
    while found := _THINK_OR_CALL.search(message, at):
        call: Call | Malformed
        call, at = (Malformed(""), found.end()) if found[1] else _heard(message, found.start())
        if isinstance(call, Call):
            out += [message[done : found.start()], call]
            done = at
    return [part for part in (*out, message[done:]) if part]


def resumed(text: str, at: int, opens: str, closes: str) -> int:
    """Where to go on after a call that cannot be read: behind its end, or at the next one that begins before it."""
    opened = text.find(opens, at)
    # Only before the next one: else a text of beginnings alone is looked through to its end for each.
    closed = text.find(closes, at) if opened < 0 else text.find(closes, at, opened + len(closes) - 1)
    if closed >= 0:
        return closed + len(closes)
    return opened if opened >= 0 else len(text)


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
        args[key] = _decoded(text[tag.end() : close], key) if tag.group(2) else text[tag.end() : close]
        at = close + len(f"</{key}>")
    return Call(name, args), at + len(_CLOSE)


def _decoded(text: str, key: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise PolicyError(f"argument {key!r} must be a JSON string: {fault}") from fault
    if not isinstance(value, str) or is_torn(value):
        raise PolicyError(f"argument {key!r} must be a JSON string: got {text[:40]}")
    return value


def is_torn(text: str) -> bool:
    """Whether a text holds half of a surrogate pair: JSON can write it, no tokenizer can read it."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)
