"""Faults of a recipe as sentences that name the field and the fix."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from noria.core import registry
from noria.core.phase_checks import KINDS, is_advantage

#: Keys that people bring along and that Noria refuses, with the reason.
REFUSED = dict.fromkeys(
    ("top_p", "top_k", "min_p"),
    "is refused: a sampler that changes the support makes importance ratios wrong - use temperature",
)


def describe(fault: ValidationError, data: dict[str, Any], root: type[BaseModel]) -> str:
    """One line per fault, each with the dotted field and what to do."""
    lines = [_line(error, data, root) for error in fault.errors(include_url=False)]
    return "\n".join(dict.fromkeys(lines))


def describe_plugin(fault: ValidationError, path: str, config: type[BaseModel]) -> list[str]:
    """The same for a plug-in's own `Config`, whose table stands at `path`."""
    lines = []
    for error in fault.errors(include_url=False):
        loc = ".".join(str(part) for part in error["loc"])
        if error["type"] == "extra_forbidden":
            lines.append(unknown_key(loc, path, list(config.model_fields)))
        else:
            lines.append(_value_line(f"{path}.{loc}" if loc else path, error))
    return lines


def unknown_key(key: str, section: str, known: list[str], elsewhere: list[tuple[str, str]] | None = None) -> str:
    """`unknown key 'x' in [section]` with the nearest right key and its section."""
    where = f"[{section}]" if section else "the top level"
    if key in REFUSED:
        return f"{section}.{key} {REFUSED[key]}"
    exact = list(dict.fromkeys(place for place, name in elsewhere or [] if name == key))
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    if close:
        return f"unknown key {key!r} in {where}: did you mean {close[0]!r}?"
    if exact:
        places = " or ".join(f"[{place}]" if place else "the top level" for place in exact[:3])
        return f"unknown key {key!r} in {where}: it belongs in {places}"
    for name in difflib.get_close_matches(key, [name for _, name in elsewhere or []], n=1, cutoff=0.75):
        place = next(place for place, other in elsewhere or [] if other == name)
        there = f"[{place}]" if place else "the top level"
        return f"unknown key {key!r} in {where}: did you mean {name!r} in {there}?"
    return f"unknown key {key!r} in {where}: the keys here are {', '.join(known)}"


def _line(error: Any, data: dict[str, Any], root: type[BaseModel]) -> str:
    loc = _locate(error["loc"], data)
    dotted = ".".join(loc)
    if error["type"] == "extra_forbidden":
        model = _model_at(root, loc[:-1], data)
        known = list(model.model_fields) if model else []
        return unknown_key(loc[-1], ".".join(loc[:-1]), known, list(places(root, "")))
    return _value_line(dotted, error)


def _value_line(dotted: str, error: Any) -> str:
    kind, got = error["type"], error.get("input")
    context = error.get("ctx", {})
    if kind == "missing":
        section, _, key = dotted.rpartition(".")
        return f"{dotted} must be given - add `{key} = …` {f'to [{section}]' if section else 'at the top'}"
    if kind == "union_tag_not_found":
        return f"{dotted}.signal must be given - it says what kind of phase this is"
    if kind == "union_tag_invalid":
        known = [*KINDS, *registry.of_slot("advantage")]
        near = registry.nearest(str(context["tag"]), known)
        return f"{dotted}.signal must be one of {', '.join(known)}, a dotted name: got {context['tag']!r}{near}"
    if kind == "value_error":
        message = str(context.get("error", error["msg"]))
        return f"{dotted}: {message}" if dotted else message
    if kind == "string_pattern_mismatch":
        return f"{dotted} must begin with a letter and hold letters, digits, '.', '_' and '-' only: got {got!r}"
    if kind == "less_than_equal":
        return f"{dotted} must be at most {context['le']}: got {got!r} - lower it"
    rule = error["msg"][:1].lower() + error["msg"][1:]
    rule = rule.removeprefix("input should be ").removeprefix("value should be ")
    return f"{dotted} must be {rule}: got {got!r}"


def _locate(loc: tuple[Any, ...], data: Any) -> list[str]:
    """The path in the file; the tags and class names that unions add to a location are left out."""
    path: list[str] = []
    at = data
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if (isinstance(at, dict) and part in at) or (isinstance(at, list) and isinstance(part, int) and part < len(at)):
            at = at[part]
        elif not last or at is None:
            continue
        path.append(str(part))
    return path


def _model_at(root: type[BaseModel], path: list[str], data: Any) -> type[BaseModel] | None:
    """The model that validates the table at `path`."""
    models: list[type[BaseModel]] = [root]
    at = data
    annotation: Any = None
    for part in path:
        at = at.get(part, {}) if isinstance(at, dict) else {}
        fields = [model.model_fields[part].annotation for model in models if part in model.model_fields]
        annotation = fields[0] if fields else annotation
        models = list(models_in(annotation))
    if len(models) > 1 and isinstance(at, dict):
        chosen = [model for model in models if _accepts(model, at)]
        models = chosen or models
    return models[0] if models else None


def _accepts(model: type[BaseModel], table: dict[str, Any]) -> bool:
    field = model.model_fields.get("signal")
    if field is None:
        return False
    known = get_args(field.annotation)
    return table.get("signal") in known if known else is_advantage(str(table.get("signal")))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models inside an annotation: itself, the values of a dict, the members of a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is dict:
        yield from models_in(args[1])
    elif origin is Annotated:
        yield from models_in(args[0])
    elif origin in (Union, types.UnionType):
        for arg in args:
            yield from models_in(arg)


def places(model: type[BaseModel], section: str) -> Iterator[tuple[str, str]]:
    """(section, key) of every field of the recipe; a named table is written `<name>`."""
    for key, field in model.model_fields.items():
        yield section, key
        inner = f"{section}.{key}" if section else key
        if get_origin(field.annotation) is dict:
            inner += ".<name>"
        for sub in models_in(field.annotation):
            yield from places(sub, inner)
