"""Typed tools of a world: schemas and checks come from a function's signature, several calls of a turn run at once.

    def search(query: str, limit: int = 5) -> str: …

    box = Toolbox([tool(search, parallel=True, query="words to look for", limit="pages at most")])

Calls run in their order. Neighbours whose tools are `parallel` run together, in threads; results stand in call order. A
tool that may change the state can run beside others as well, `ahead` of its turn on a copy: where a call did change
something, those behind it are done anew, in order. So results are always those of one call after the other.
What is wrong with one call, an unknown tool, an argument of another type, or a `PolicyError` of the tool itself, is
that call's result and nobody else's. Any other exception is a fault of the world and leaves when all have ended.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, get_origin, get_type_hints

from noria.core import registry
from noria.core.errors import PolicyError
from noria.core.types import Tool
from noria.tokens.calls import Call, Malformed
from noria.tokens.together import Ahead, at_once

_KINDS: dict[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"
}  # fmt: skip

_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,), "object": (dict,)
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Typed:
    """A tool that can be called; `required` are the parameters without a default.

    `ahead` carries a call out on a copy; it is only asked where `looks` expects that the call changes nothing. Both
    take the arguments of `run`.
    """

    schema: Tool
    run: Callable[..., str]
    required: frozenset[str]
    parallel: bool = False
    ahead: Callable[..., Ahead] | None = None
    looks: Callable[..., bool] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What one call gave: a text, or an error in words for the model."""

    name: str
    text: str
    failed: bool = False


def tool(
    run: Callable[..., str],
    parallel: bool = False,
    ahead: Callable[..., Ahead] | None = None,
    looks: Callable[..., bool] | None = None,
    **meanings: str,
) -> Typed:
    """A tool from a function: its name, its docstring's first line, its parameters with their types.

    `parallel` says that it changes nothing and may run beside others; for `ahead` and `looks` see `Typed`. Raises
    TypeError where a parameter has no type that JSON knows.
    """
    hints = get_type_hints(run)
    parameters: dict[str, tuple[str, str]] = {}
    for key in inspect.signature(run).parameters:
        kind = _KINDS.get(get_origin(hints.get(key)) or hints.get(key))
        if kind is None:
            raise TypeError(f"parameter {key!r} of {run.__name__} must be one of {', '.join(_KINDS.values())}")
        parameters[key] = (kind, meanings.get(key, ""))
    required = (k for k, p in inspect.signature(run).parameters.items() if p.default is inspect.Parameter.empty)
    doc = (inspect.getdoc(run) or "").partition("\n")[0]
    return Typed(Tool(run.__name__, doc, parameters), run, frozenset(required), parallel, ahead, looks)


class Toolbox:
    """The tools of one episode."""

    def __init__(self, tools: Sequence[Typed]) -> None:
        self._tools = {each.schema.name: each for each in tools}

    @property
    def schemas(self) -> tuple[Tool, ...]:
        """The tools as a task shows them to the model."""
        return tuple(each.schema for each in self._tools.values())

    @property
    def defaults(self) -> dict[str, dict[str, str]]:
        """Tool -> parameter -> its default as a call would state it; those of None are left out."""
        out: dict[str, dict[str, str]] = {}
        for name, each in self._tools.items():
            found = {key: p.default for key, p in inspect.signature(each.run).parameters.items()}
            stated = {key: d for key, d in found.items() if d is not None and d is not inspect.Parameter.empty}
            out[name] = {key: d if isinstance(d, str) else json.dumps(d) for key, d in stated.items()}
        return out

    def run(self, calls: Sequence[Call | Malformed]) -> list[Result]:
        """Do the calls of one turn; results in their order."""
        out: list[Result] = []
        for beside, run in groupby(calls, self._beside):
            part = list(run)
            out += self._together(part) if beside and len(part) > 1 else [self._one(call) for call in part]
        return out

    def _beside(self, call: Call | Malformed) -> bool:
        """Whether a call may run beside its neighbours."""
        if not isinstance(call, Call) or call.name not in self._tools:
            return False
        found = self._tools[call.name]
        if found.parallel:
            return True
        try:
            return found.ahead is not None and found.looks is not None and found.looks(**arguments(found, call))
        except PolicyError:
            return False

    def _together(self, calls: Sequence[Call | Malformed]) -> list[Result]:
        out: list[Result] = []
        done = at_once([partial(self._early, call) for call in calls])
        try:
            for call, future in zip(calls, done, strict=True):
                early = future.result()
                if isinstance(early, Result):
                    out.append(early)
                    continue
                assert isinstance(call, Call)
                try:
                    early.keep()
                    out.append(Result(call.name, early.text))
                except PolicyError as fault:
                    early.drop()
                    out.append(Result(call.name, str(fault), True))
                if early.changed:
                    break
        finally:  # a fault of one leaves no copy of the others
            for future in done[len(out) :]:
                if future.exception() is None and isinstance(late := future.result(), Ahead):
                    late.drop()
        return out + [self._one(call) for call in calls[len(out) :]]

    def _early(self, call: Call | Malformed) -> Result | Ahead:
        found = self._tools[call.name] if isinstance(call, Call) else None
        if not isinstance(call, Call) or found is None or found.ahead is None:
            return self._one(call)
        try:
            return found.ahead(**arguments(found, call))
        except PolicyError as fault:
            return Result(call.name, str(fault), True)

    def _one(self, call: Call | Malformed) -> Result:
        if isinstance(call, Malformed):
            return Result("", call.why, True)
        try:
            found = self._tools.get(call.name)
            if found is None:
                near = registry.nearest(call.name, list(self._tools))
                raise PolicyError(f"no tool {call.name!r}: there are {', '.join(self._tools)}{near}")
            return Result(call.name, found.run(**arguments(found, call)))
        except PolicyError as fault:
            return Result(call.name, str(fault), True)


def arguments(tool: Typed, call: Call) -> dict[str, Any]:
    """The call's arguments in the types of the tool. Raises PolicyError: names what is missing, unknown or wrong."""
    known = tool.schema.parameters
    unknown = [key for key in call.args if key not in known]
    missing = [key for key in known if key in tool.required and key not in call.args]
    if unknown:
        raise PolicyError(f"{call.name} has no argument {unknown[0]!r}: it takes {', '.join(known) or 'none'}")
    if missing:
        raise PolicyError(f"{call.name} needs the argument {missing[0]!r}")
    return {key: _value(call.name, key, known[key][0], text) for key, text in call.args.items()}


def _value(name: str, key: str, kind: str, text: str) -> Any:
    if kind == "string":
        return text
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise PolicyError(f"{key!r} of {name} must be of type {kind}: got {text[:40]!r}")
    return float(text) if kind == "number" else value


def told(results: Sequence[Result]) -> str:
    """One observation of all results, in call order: a lone one as it stands, several under their number and name."""
    lines = [f"error: {r.text}" if r.failed else r.text for r in results]
    if len(lines) == 1:
        return lines[0]
    named = zip(results, lines, strict=True)
    return "\n".join(f"[{i} {r.name or 'call'}] {line}" for i, (r, line) in enumerate(named, 1))
