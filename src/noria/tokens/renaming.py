"""Tools under other names and in other shapes: what each call is then, and what it was.

    Renaming(tools).said(call)     a call of the world -> as it is shown
    Renaming(tools).meant(call)    a shown call -> one of the world

Names, order, types and meanings of arguments may differ, words of an enumeration may be spelt otherwise, arguments that
were left out may be stated, all of them may stand in one object, and several tools may be one with a choice between
them. Values stay: `meant(said(call))` is the call, plus the defaults that it left out. What would break it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from noria.core.errors import PolicyError
from noria.core.types import Tool
from noria.tokens.calls import Call, misnamed


class Unmapped(ValueError):
    """Something that cannot be said under the shown names so that it could be told what was meant."""


@dataclass(frozen=True, slots=True)
class ArgumentMap:
    """One argument: its name in the world, then its name, JSON type and meaning as shown.

    spellings   (word in the world, word as shown) of an enumeration; () = values stand as they are
    default     what is stated where a call leaves the argument out; None = nothing
    """

    name: str
    shown: str
    kind: str
    text: str
    spellings: tuple[tuple[str, str], ...] = ()
    default: str | None = None

    def spelt(self, value: str) -> str:
        """A value as shown. Raises Unmapped: another value is spelt like that."""
        found = dict(self.spellings).get(value)
        if found is None and any(value == new for _, new in self.spellings):
            raise Unmapped(f"{self.name} has the value {value[:40]!r}, which stands for another")
        return value if found is None else found

    def read(self, value: str) -> str:
        """A shown value as the world has it. Raises PolicyError: the word is the world's own."""
        for old, new in self.spellings:
            if value == new:
                return old
        if any(value == old for old, _ in self.spellings):
            raise PolicyError(f"{self.shown} must be one of {', '.join(new for _, new in self.spellings)}")
        return value


@dataclass(frozen=True, slots=True)
class ToolMap:
    """One tool of the world; its arguments stand in the order in which they are shown.

    holder      the one argument, of type object, in which all others stand; "" = they stand alone
    choice      argument and value that tell it from others which are shown under the same name; "" = it is alone
    """

    name: str
    shown: str
    text: str
    arguments: tuple[ArgumentMap, ...] = ()
    holder: str = ""
    choice: str = ""
    value: str = ""

    @property
    def quoted(self) -> str:
        """How a text names it."""
        return f"{self.shown}.{self.value}" if self.choice else self.shown

    @property
    def names(self) -> dict[str, str]:
        """Its arguments' names in the world -> as shown."""
        return {each.name: each.shown for each in self.arguments}

    def said(self, args: Mapping[str, str]) -> Call:
        """Its call with these arguments as shown. Raises Unmapped."""
        given = {
            each.shown: each.spelt(args[each.name]) if each.name in args else each.spelt(each.default or "")
            for each in self.arguments
            if each.name in args or each.default is not None
        }
        known = self.names
        taken = {*known.values(), self.holder, self.choice}
        for key in (key for key in args if key not in known):
            if key in taken:
                raise Unmapped(f"{self.name} has an argument {key!r} that it does not take")
            given[key] = args[key]
        if self.holder and given:
            given = {self.holder: _object(given, {each.shown: each.kind for each in self.arguments})}
        return Call(self.shown, ({self.choice: self.value} if self.choice else {}) | given)

    def meant(self, args: Mapping[str, str]) -> Call:
        """The world's call for these shown arguments. Raises PolicyError: they are not as shown."""
        given = {key: value for key, value in args.items() if not self.choice or key != self.choice}
        if self.holder and given:
            if set(given) != {self.holder}:
                raise PolicyError(f"{self.shown} takes {self.holder}, an object")
            given = _opened(given[self.holder], self.holder)
        by_shown = {each.shown: each for each in self.arguments}
        for key in given:
            if key not in by_shown and key in self.names:
                raise PolicyError(f"{self.shown} has no such argument: it takes {', '.join(by_shown)}")
        order = [key for key in self.names.values() if key in given]
        rest = {key: value for key, value in given.items() if key not in by_shown}
        return Call(self.name, {by_shown[key].name: by_shown[key].read(given[key]) for key in order} | rest)


@dataclass(frozen=True, slots=True)
class Renaming:
    """All tools of a task, in the order in which they are shown.

    Raises ValueError where what is shown could mean two things, or cannot be written as a call.
    """

    tools: tuple[ToolMap, ...]

    def __post_init__(self) -> None:
        _distinct("tools", (tool.name for tool in self.tools))
        _distinct("shown tools", ((tool.shown, tool.value) for tool in self.tools))
        for tool in self.tools:
            keys = [*tool.names.values(), *filter(None, (tool.holder, tool.choice))]
            _distinct(f"arguments of {tool.name}", keys)
            _distinct(f"arguments of {tool.name}", tool.names)
            if fault := misnamed(tool.shown, keys):
                raise ValueError(fault)
            alike = [other.choice for other in self.tools if other.shown == tool.shown]
            if len(set(alike)) > 1 or (len(alike) > 1 and not tool.choice):
                raise ValueError(f"tools shown as {tool.shown!r} must have one argument that tells them apart")
            if any(other.name == tool.shown and other is not tool for other in self.tools):
                raise ValueError(f"{tool.name!r} must not be shown under the name of another tool: {tool.shown!r}")
            for each in tool.arguments:
                _distinct(f"spellings of {each.name}", (old for old, _ in each.spellings))
                _distinct(f"spellings of {each.name}", (new for _, new in each.spellings))

    def of(self, name: str) -> ToolMap | None:
        """The tool of this name in the world."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def said(self, call: Call) -> Call:
        """A call as shown; one of no tool stays. Raises Unmapped: it could not be told what it meant."""
        tool = self.of(call.name)
        if tool is None:
            if any(each.shown == call.name for each in self.tools):
                raise Unmapped(f"a call names {call.name!r}, which stands for another tool")
            return call
        return tool.said(call.args)

    def meant(self, call: Call) -> Call:
        """What a shown call is in the world; one of no tool stays. Raises PolicyError: it is not as shown."""
        alike = [tool for tool in self.tools if tool.shown == call.name]
        if not alike:
            if self.of(call.name) is not None:
                raise PolicyError(f"no tool of this name: there are {', '.join(self.shown_names)}")
            return call
        if alike[0].choice:
            key, chosen = alike[0].choice, call.args.get(alike[0].choice)
            alike = [tool for tool in alike if tool.value == chosen] or alike
            if alike[0].value != chosen:
                raise PolicyError(f"{call.name} needs {key}: one of {', '.join(tool.value for tool in alike)}")
        return alike[0].meant(call.args)

    @property
    def shown_names(self) -> list[str]:
        """The names of the tools as shown, each once."""
        return list(dict.fromkeys(tool.shown for tool in self.tools))

    @property
    def schemas(self) -> tuple[Tool, ...]:
        """The tools as they are shown."""
        return tuple(_schema([tool for tool in self.tools if tool.shown == name]) for name in self.shown_names)


def plain(tools: Iterable[Tool]) -> Renaming:
    """The renaming that changes nothing."""
    return Renaming(
        tuple(
            ToolMap(t.name, t.name, t.description, tuple(ArgumentMap(k, k, *v) for k, v in t.parameters.items()))
            for t in tools
        )
    )


def _schema(alike: list[ToolMap]) -> Tool:
    """The schema of tools that are shown as one."""
    first = alike[0]
    if not first.choice:
        return Tool(first.shown, first.text, _parameters(first))
    listed = "; ".join(f"{tool.value}: {tool.text}" for tool in alike)
    parameters = {first.choice: ("string", f"one of {', '.join(tool.value for tool in alike)}")}
    for tool in alike:
        for key, (kind, text) in _parameters(tool).items():
            parameters.setdefault(key, (kind, text))
    return Tool(first.shown, listed, parameters)


def _parameters(tool: ToolMap) -> dict[str, tuple[str, str]]:
    flat = {each.shown: (each.kind, each.text) for each in tool.arguments}
    if not tool.holder or not flat:
        return flat
    listed = "; ".join(f"{key}: {kind}, {text}" if text else f"{key}: {kind}" for key, (kind, text) in flat.items())
    return {tool.holder: ("object", listed)}


def _object(given: Mapping[str, str], kinds: Mapping[str, str]) -> str:
    """Arguments as one JSON object, from which `_opened` gets the same texts."""
    return json.dumps({key: _value(text, kinds.get(key, "string")) for key, text in given.items()}, ensure_ascii=False)


def _value(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if not isinstance(value, str) and _text(value) == text else text


def _opened(text: str, holder: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PolicyError(f"{holder} must be a JSON object: got {text[:40]!r}")
    return {key: _text(value) for key, value in found.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _distinct(what: str, names: Iterable[Any]) -> None:
    found = list(names)
    if len(set(found)) != len(found):
        raise ValueError(f"{what} must have names of their own: got {', '.join(map(str, found))}")
