"""What a model wrote as calls of an entry: texts become values of the types that are described."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from noria.core.errors import PolicyError
from noria.envs.bfcl.data import Entry
from noria.envs.bfcl.forms_read import read
from noria.envs.bfcl.matching import Made
from noria.tokens.calls import Call, Malformed, hear, rendered

_TEXTS = ("string", "any")


def calls_in(entry: Entry, message: str) -> list[Made]:
    """The calls of a message.

    Raises:
        PolicyError: one cannot be read.
    """
    if entry.form is not None:
        return [_formed(entry, *made) for made in read(entry.form, hear(message).answer)]
    made: list[Made] = []
    for at, call in enumerate(hear(message).calls):
        if isinstance(call, Malformed):
            raise PolicyError(call.why)
        made.append(_made(entry, call, _answered(entry, call, at)))
    return made


def values_of(described: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """The arguments of a call as values: JSON where the type is not text, the text itself where it is no JSON."""
    properties = described["parameters"]["properties"]
    return {
        key: text if properties.get(key, {}).get("type") in _TEXTS else _json(text) for key, text in call.args.items()
    }


def written(name: str, arguments: Mapping[str, Any]) -> str:
    """A call with these values as a message in the house's form."""
    texts = {k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in arguments.items()}
    return rendered(name, texts)


def _formed(entry: Entry, name: str, arguments: Mapping[str, Any]) -> Made:
    """A call of a form; answers have lists where a tuple is described."""
    if name not in entry.names.values():
        return name, arguments
    properties = entry.described(name)["parameters"]["properties"]
    is_tuple = {key for key, each in properties.items() if each.get("type") == "tuple"}
    return name, {
        key: list(value) if key in is_tuple and isinstance(value, tuple) else value for key, value in arguments.items()
    }


def _made(entry: Entry, call: Call, options: Mapping[str, Sequence[Any]]) -> Made:
    name = entry.names.get(call.name)
    if name is None:
        return call.name, dict(call.args)
    if entry.language:
        return name, dict(call.args)
    values = values_of(entry.described(name), call)
    for key, text in call.args.items():
        # The house's form has no types: a text that must be no text in every right answer is read as what it says.
        if isinstance(values[key], str) and options.get(key) and not _some_text(options[key]):
            values[key] = _json(text)
    return name, values


def _answered(entry: Entry, call: Call, at: int) -> Mapping[str, Sequence[Any]]:
    """The right values by argument of the answer that the call may be: the one in its place, or another of its name."""
    name = entry.names.get(call.name, call.name)
    found = [
        want[name] for want in (*entry.answer[at : at + 1], *entry.answer) if isinstance(want, dict) and name in want
    ]
    return found[0] if found else {}


def _some_text(options: Sequence[Any]) -> bool:
    return any(isinstance(option, str) and option for option in options) or all(option == "" for option in options)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
