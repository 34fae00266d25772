"""A renaming of a task's tools, drawn from a seed: words, naming style, order, shape, spelling, grouping.

Arguments of one name get one new name in all tools. A word counts as one of an enumeration only where the calls of the
trajectory show it: `id or title` may well be two things that a value can be.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from noria.core.types import Task, Tool
from noria.stages.enrichment.lexicon import (
    ARGUMENT_WORDS,
    CHOICES,
    ENDINGS,
    GROUPS,
    HOLDERS,
    PREFIXES,
    TOOL_WORDS,
)
from noria.tokens.calls import Call
from noria.tokens.renaming import ArgumentMap, Renaming, ToolMap
from noria.tokens.retold import retold

#: Chances of what is not done to every task.
HELD, GROUPED, TEXTUAL, SPELT, STATED = 0.25, 0.3, 0.3, 0.5, 0.5
#: Tools that one choice may hold, fewest and most.
GROUP = (2, 5)
_TRIES = 30
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_OPTION = r"[A-Za-z][\w-]*"
_OPTIONS = re.compile(rf"(?:one of:? )?({_OPTION}(?:(?:,? or |, | ){_OPTION})+)")
_TOOL_STYLES = ("snake", "camel", "kebab", "noun_first", "prefixed")
_TEXTS = ("{}", "{}.", "Tool: {}", "{} (see the arguments)", "Use it for this: {}")

Defaults = Mapping[str, Mapping[str, str]]


def draw(task: Task, calls: Sequence[Call], defaults: Defaults, rng: random.Random) -> Renaming:
    """A renaming of the tools of a task, for a trajectory with these calls.

    `defaults` are values by tool and argument, which calls may state. Raises ValueError: names clash after many tries.
    """
    style, arg_style = rng.choice(_TOOL_STYLES), rng.choice(("snake", "camel"))
    prefix = rng.choice(PREFIXES)
    own = {tool.name for tool in task.tools}
    shown: dict[str, str] = {}
    for tool in task.tools:
        taken = own | set(shown.values())
        shown[tool.name] = _fresh(partial(_tool_name, tool.name, style, prefix, rng), taken, rng)
    keys: dict[str, str] = {}
    everything = [key for tool in task.tools for key in tool.parameters]
    for key in dict.fromkeys(everything):
        taken = {*everything, *keys.values(), *HOLDERS, *CHOICES}
        keys[key] = _fresh(partial(_argument_name, key, arg_style, rng), taken, rng)
    holder = rng.choice(HOLDERS) if rng.random() < HELD else ""
    textual, spelt, stated = rng.random() < TEXTUAL, rng.random() < SPELT, rng.random() < STATED
    text = rng.choice(_TEXTS)
    maps = []
    for tool in task.tools:
        given = {key: defaults.get(tool.name, {}).get(key) for key in tool.parameters} if stated else {}
        arguments = [_argument(tool, key, keys, calls, textual, spelt, given.get(key), rng) for key in tool.parameters]
        rng.shuffle(arguments)
        words = retold(tool.description, shown)
        maps.append(ToolMap(tool.name, shown[tool.name], words, tuple(arguments), holder if arguments else ""))
    if rng.random() < GROUPED:
        maps = _grouped(maps, rng)
    maps = [tool if tool.choice else replace(tool, text=text.format(tool.text.rstrip("."))) for tool in maps]
    rng.shuffle(maps)
    return Renaming(tuple(maps))


def _fresh(make: Callable[[], str], taken: set[str], rng: random.Random) -> str:
    """A name that nobody has."""
    for number in range(_TRIES):
        name = make()
        found = name if number < _TRIES // 2 else f"{name}{rng.randint(2, 99)}"
        if found not in taken:
            return found
    raise ValueError("no name is left")


def _tool_name(name: str, style: str, prefix: str, rng: random.Random) -> str:
    words = [word.lower() for word in _WORDS.findall(name)] or ["tool"]
    at = next((k for k, word in enumerate(words) if word in TOOL_WORDS), None)
    verb = [prefix] if at is None else rng.choice(TOOL_WORDS[words.pop(at)]).split("_")
    words = [*words, *verb] if style == "noun_first" else [*verb, *words]
    if style == "prefixed" and words[0] != prefix:
        words = [prefix, *words]
    return _joined(words, style)


def _argument_name(key: str, style: str, rng: random.Random) -> str:
    words = [word.lower() for word in _WORDS.findall(key)] or ["value"]
    if key in ARGUMENT_WORDS:
        words = rng.choice(ARGUMENT_WORDS[key]).split("_")
    else:
        words = rng.choice(([*words, rng.choice(ENDINGS)], ["the", *words], ["which", *words]))
    return _joined(words, style)


def _joined(words: Sequence[str], style: str) -> str:
    if style == "camel":
        return words[0] + "".join(word.capitalize() for word in words[1:])
    return ("-" if style == "kebab" else "_").join(words)


def _argument(
    tool: Tool,
    key: str,
    keys: Mapping[str, str],
    calls: Sequence[Call],
    textual: bool,
    spelt: bool,
    default: str | None,
    rng: random.Random,
) -> ArgumentMap:
    kind, text = tool.parameters[key]
    spellings: tuple[tuple[str, str], ...] = ()
    used = [call.args[key] for call in calls if call.name == tool.name and key in call.args]
    options = _options(text) if kind == "string" and spelt else []
    if used and set(used) <= set(options):
        turned = [option.upper() if options[0] != options[0].upper() else option.lower() for option in options]
        if len(set(turned)) == len(turned):
            spellings = tuple(zip(options, turned, strict=True))
            text = f"one of {', '.join(turned)}"
    if kind in ("integer", "number") and textual:
        kind, text = "string", f"{text} (a number in digits)".strip()
    elif text and rng.random() < 0.5:
        text = text[0].upper() + text[1:] if not spellings else text
    if default is not None:
        text = f"{text}; {default!r} if nothing else is wanted".removeprefix("; ")
    return ArgumentMap(key, keys[key], kind, text, spellings, default)


def _options(text: str) -> list[str]:
    """The words of an enumeration that a meaning spells out, [] where it does not."""
    found = _OPTIONS.fullmatch(text)
    return re.findall(_OPTION, re.sub(r"\bor\b", ",", found[1])) if found else []


def _grouped(maps: Sequence[ToolMap], rng: random.Random) -> list[ToolMap]:
    """Some tools as one with a choice: tools whose arguments of one name are of one type."""
    chosen = rng.sample(list(maps), min(len(maps), rng.randint(*GROUP)))
    kept: list[ToolMap] = []
    for tool in chosen:
        if all(_agree(tool, other) for other in kept):
            kept.append(tool)
    names = {tool.name for tool in maps} | {tool.shown for tool in maps}
    free = [name for name in GROUPS if name not in names]
    if len(kept) < GROUP[0] or not free:
        return list(maps)
    shown = rng.choice(free)
    keys = {each.shown for tool in kept for each in tool.arguments} | {tool.holder for tool in kept}
    choice = rng.choice([key for key in CHOICES if key not in keys])
    return [
        ToolMap(tool.name, shown, tool.text, tool.arguments, "", choice, tool.shown) if tool in kept else tool
        for tool in maps
    ]


def _agree(one: ToolMap, other: ToolMap) -> bool:
    mine = {each.shown: each for each in one.arguments}
    return all(
        (each.kind, each.spellings, each.default)
        == (mine[each.shown].kind, mine[each.shown].spellings, mine[each.shown].default)
        for each in other.arguments
        if each.shown in mine
    )
