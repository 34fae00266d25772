"""Whether calls are those that were wanted, by the matching rules that BFCL publishes for its AST categories.

An answer names, for every parameter, the values that are right; "" among them means that it may be left out. A text is
compared without case, blanks and the signs `,./-_*^`. Numbers must be of the type described, but a whole number does
for a float. An argument may be the name of a variable where the answer holds names instead of values of the type.
Source: https://gorilla.cs.berkeley.edu/leaderboard.html (version 4), checked against `bfcl-eval` 2026.3.23.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noria.envs.bfcl.data import Entry

#: A call: the function's name and its arguments.
Made = tuple[str, Mapping[str, Any]]
#: Reads a literal of another language: text, type, type of its items.
Convert = Callable[[str, str, str | None], Any]

_PYTHON: Mapping[str, type] = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
    "any": str,
}  # fmt: skip
_FOREIGN: Mapping[str, Mapping[str, type]] = {
    "Java": {
        "byte": int, "short": int, "integer": int, "long": int, "float": float, "double": float, "boolean": bool,
        "char": str, "Array": list, "ArrayList": list, "HashMap": dict, "String": str, "any": str,
    },
    "JavaScript": {
        "String": str, "integer": int, "float": float, "Bigint": int, "Boolean": bool, "dict": dict, "array": list,
        "any": str,
    },
}  # fmt: skip
_LISTS = ("Array", "ArrayList", "array", "tuple")
_IGNORED = re.compile(r"[ ,./\-_*^]")


def fault_of(entry: Entry, calls: Sequence[Made], convert: Convert | None = None) -> str:
    """Why the calls are not those of the entry's answer, "" where they are. `convert` is for other languages."""
    wanted = entry.answer
    if len(calls) != len(wanted):
        return f"{len(calls)} calls, expected {len(wanted)}"
    if "parallel" not in entry.category:
        return _call_fault(entry, calls[0], wanted[0], convert)
    left = list(range(len(calls)))
    for want in wanted:
        faults = {}
        for index in left:
            faults[index] = _call_fault(entry, calls[index], want, convert)
            if not faults[index]:
                left.remove(index)
                break
        else:
            return "; ".join(dict.fromkeys(faults.values())) or "a call is missing"
    return ""


def _call_fault(entry: Entry, made: Made, want: Mapping[str, Any], convert: Convert | None) -> str:
    ((name, options),) = want.items()
    described = entry.described(name)["parameters"]
    called, arguments = made
    if called != name:
        return f"{called} was called, expected {name}"
    missing = [key for key in described.get("required", ()) if key not in arguments]
    if missing:
        return f"{name} needs {missing[0]}"
    for key, value in arguments.items():
        if key not in described["properties"] or key not in options:
            return f"{name} was given {key}, which is not wanted"
        fault = _value_fault(value, described["properties"][key], options[key], entry.language, convert)
        if fault:
            return f"{key} of {name}: {fault}"
    left_out = [key for key, allowed in options.items() if key not in arguments and "" not in allowed]
    return f"{name} was not given {left_out[0]}" if left_out else ""


def _value_fault(
    value: Any, described: Mapping[str, Any], options: Sequence[Any], language: str, convert: Convert | None
) -> str:
    kind = str(described["type"])
    types = _FOREIGN[language] if language else _PYTHON
    expected = types[kind]
    nested = types[str(described["items"]["type"])] if kind in _LISTS and "items" in described else None
    if language:
        assert convert is not None
        if not isinstance(value, str):
            return f"must be a {language} literal"
        value = convert(value, kind, str(described["items"]["type"]) if nested else None)
    elif kind == "float" and type(value) is int:
        value = float(value)
    is_right, is_variable = _typed(value, expected, nested, options)
    if not is_right:
        return f"must be of type {kind}"
    if is_variable:
        fits = value in options
    elif expected is dict:
        fits = any(_dict_fits(value, option) for option in options if option != "")
    elif expected is list and nested is dict:
        fits = any(_dicts_fit(value, option) for option in options)
    elif expected is str:
        fits = plain(value) in [plain(option) for option in options if isinstance(option, str)]
    elif expected is list:
        fits = [_plain(item) for item in value] in [[_plain(item) for item in option] for option in options]
    else:
        fits = value in options
    return "" if fits else "is another value"


def _typed(value: Any, expected: type, nested: type | None, options: Sequence[Any]) -> tuple[bool, bool]:
    """Whether a value is of the type, and whether it is to be compared as it stands: the name of a variable.

    Types are equal, not related: a truth value is no number. Items of a list are looked at one level deep.
    """
    told = next((type(option) for option in options if option != ""), None)
    is_variable = told is not None and told is not expected
    is_same: bool = type(value) is expected
    if is_same:
        if nested is None:
            return True, is_variable
        for option in options:
            if not isinstance(option, list) or all(_typed(item, nested, None, option)[0] for item in value):
                return True, is_variable
        return False, False
    return told is not None and type(value) is told, True


def _dict_fits(value: Mapping[str, Any], option: Mapping[str, Any]) -> bool:
    for key, each in value.items():
        if key not in option or _plain(each) not in [_plain(right) for right in option[key]]:
            return False
    return all(key in value or "" in allowed for key, allowed in option.items())


def _dicts_fit(values: Sequence[Any], options: Any) -> bool:
    if len(values) != len(options):
        return False
    return all(_dict_fits(value, option) for value, option in zip(values, options, strict=True) if option != "")


def plain(text: str) -> str:
    """A text without what does not count when texts are compared."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _plain(value: Any) -> Any:
    return plain(value) if isinstance(value, str) else value
