"""Texts that name tools, under a renaming and back: where a word is a tool's name, and where it is a word.

A tool's name that is no plain word (`list_rooms`, `getUser`) is its name wherever it stands. A plain word (`open`) is
one where a text quotes it: in quotes or backticks, before a bracket, in a call, or where the words around say so ("call
open", "no tool: there are get, open", "open takes id"). Names of arguments are plain words always.

Of an observation, errors are about calls, and heads as `[2 open]` are: they alone are retold. What else a tool gave, a
file that it showed for instance, stays as it is, since later calls may have to repeat it letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from noria.core.errors import PolicyError
from noria.tokens.calls import Call, hear, parts, rendered, rendered_error
from noria.tokens.renaming import Renaming, Unmapped

_PLAIN = re.compile(r"[A-Za-z]+[a-z]*")
_THINK = re.compile(r"<think>.*?</think>", re.DOTALL)
#: What says that a tool's or an argument's name comes next.
_CUE = re.compile(r"(?:\b(?:call|calls|called|calling|tools?|arguments?|takes?|there are|use|needs)[ :]+)\Z")
_LIST = re.compile(r"(?:,| or| and|, or|, and)\s+\Z")
_AFTER = re.compile(r" (?:takes|needs|has no argument)\b")
_MUST = re.compile(r"(?: and \w+)? must\b")
_CALLED = '<call name="'
_QUOTES = "'\"`"
_HEAD = re.compile(r"\[(\d+) ([^\]\s]+)\] ")
_ERROR = "error:"


def retold(
    text: str, tools: Mapping[str, str], arguments: Mapping[str, str] | None = None, marked: bool = False
) -> str:
    """A text with the names of tools and arguments replaced where it quotes them.

    `marked`: only where it says itself that they are names of tools, as a text must that may speak of other things in
    quotes, a function of a program for instance.
    """
    arguments = arguments or {}
    names = sorted({*tools, *arguments}, key=len, reverse=True)
    if not names:
        return text
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")
    out: list[str] = []
    at, listed = 0, -1
    for found in pattern.finditer(text):
        name, start, end = found[0], found.start(), found.end()
        goes_on = listed >= 0 and _LIST.fullmatch(text[listed:start]) is not None
        is_tool = name in tools
        if marked:
            meant_so = goes_on or _CUE.search(text, max(0, start - 24), start) or text[:start].endswith(_CALLED)
        else:
            meant_so = goes_on or _quoted(text, start, end) or _named(text, start, end, is_tool, name)
        if meant_so:
            listed = end
            out += text[at:start], tools[name] if is_tool else arguments[name]
            at = end
    return "".join([*out, text[at:]])


def _quoted(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    return after == "(" or (before != "" and before in _QUOTES and after == before)


def _named(text: str, start: int, end: int, is_tool: bool, name: str) -> bool:
    if is_tool and not _PLAIN.fullmatch(name):
        return True
    if _CUE.search(text, max(0, start - 24), start) or _AFTER.match(text, end):
        return True
    return not is_tool and _MUST.match(text, end) is not None


def said(renaming: Renaming, message: str) -> str:
    """An assistant message as shown: its calls, and the names that it thinks of.

    Raises:
        Unmapped: a call cannot be read, or could not be told from another.
    """
    tools = {tool.name: tool.quoted for tool in renaming.tools}
    out = []
    for part in parts(message):
        if isinstance(part, Call):
            shown = renaming.said(part)
            out.append(rendered(shown.name, shown.args))
            continue
        if "<call" in _THINK.sub("", part):
            raise Unmapped("a call cannot be read")
        out.append(_THINK.sub(lambda found: retold(found[0], tools), part))
    return "".join(out)


def meant(renaming: Renaming, message: str) -> str:
    """A shown message as the world hears it; a call that is not as shown stands there as one that cannot be read."""
    return "".join(part if isinstance(part, str) else _meant(renaming, part) for part in parts(message))


def _meant(renaming: Renaming, call: Call) -> str:
    try:
        found = renaming.meant(call)
    except PolicyError as fault:
        return rendered_error(str(fault))
    return rendered(found.name, found.args)


def seen(renaming: Renaming, message: str, observation: str) -> str:
    """What the world answered to its own `message`, as it is shown."""
    calls = hear(message).calls
    tools = {tool.name: tool.quoted for tool in renaming.tools}
    args = [renaming.of(c.name) if isinstance(c, Call) else None for c in calls]
    heads = [None if tool is None else (tool.name, tool.quoted) for tool in args]
    return _retold_lines(observation, tools, [tool.names if tool else {} for tool in args], heads)


def unseen(renaming: Renaming, message: str, shown: str) -> str:
    """What `seen` made `shown` of, where that can be told; `message` is the world's."""
    calls = hear(message).calls
    tools = {tool.quoted: tool.name for tool in renaming.tools}
    args = [renaming.of(c.name) if isinstance(c, Call) else None for c in calls]
    heads = [None if tool is None else (tool.quoted, tool.name) for tool in args]
    back = [{new: old for old, new in tool.names.items()} if tool else {} for tool in args]
    return _retold_lines(shown, tools, back, heads)


def _retold_lines(
    text: str,
    tools: Mapping[str, str],
    arguments: Sequence[Mapping[str, str]],
    heads: Sequence[tuple[str, str] | None],
) -> str:
    """Heads and errors of an observation; `arguments` and `heads` (name, new name) are of its calls in order."""
    lines = text.split("\n")
    next_head, by_line = 1, len(lines) == len(arguments)
    for at, line in enumerate(lines):
        head, which = "", at if by_line else None
        found = _HEAD.match(line) if len(heads) > 1 else None
        if found and int(found[1]) == next_head and next_head <= len(heads):
            which = next_head - 1
            next_head += 1
            named = heads[which]
            name = named[1] if named and named[0] == found[2] else found[2]
            head, line = f"[{found[1]} {name}] ", line[found.end() :]
        elif len(heads) == 1 and at == 0:
            which = 0
        elif which is None and len(heads) <= 1:
            continue  # of a lone call only the first line can be an error
        if line.startswith(_ERROR):
            line = retold(line, tools, arguments[which] if which is not None else None)
        lines[at] = head + line
    return "\n".join(lines)
