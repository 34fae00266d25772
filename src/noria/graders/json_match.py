"""JSON: the answer is a JSON value that equals the wanted one, keeps a schema, or both."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, model_validator

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders._fences import last_block
from noria.graders.base import ByBlank, Case, Example, Given, outcome, spec_of

NEEDS: tuple[str, ...] = ()
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "null": (type(None),),
    "integer": (int,), "number": (int, float),
}  # fmt: skip
#: Keywords of JSON Schema that are checked; any other is refused, so that none is silently left out.
_KEYWORDS = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
     "uniqueItems", "minLength", "maxLength", "minimum", "maximum", "description", "title"}
)  # fmt: skip
_ANY: Any = object()
_MAX_DEPTH = 100


class Config(Checked):
    """How values are compared."""

    order: bool = Field(default=True, description="whether the order of arrays counts")
    rel_tol: float = Field(default=1e-9, ge=0, le=1, description="relative difference up to which numbers are equal")
    max_chars: int = Field(default=200_000, ge=1, description="a longer answer is wrong unread")


class Spec(Checked):
    """What a right answer is; one of the two at least."""

    value: Any = Field(default=_ANY, description="the value wanted")
    keeps: dict[str, Any] | None = Field(
        default=None, description="JSON Schema that it must keep; see the page of graders"
    )

    @model_validator(mode="after")
    def _asks_something(self) -> Spec:
        if self.value is _ANY and self.keeps is None:
            raise ValueError("value or keeps must be given")
        for where, schema in _schemas(self.keeps or {}, "keeps"):
            unknown = set(schema) - _KEYWORDS
            kind = schema.get("type", "object")
            if unknown or not all(one in _TYPES for one in (kind if isinstance(kind, list) else [kind])):
                raise ValueError(f"{where} must use {', '.join(sorted(_KEYWORDS))}: got {sorted(unknown) or kind!r}")
        return self


EXAMPLES = (
    Example(
        {"value": {"a": [1, 2], "b": None}},
        ('{"b": null, "a": [1, 2.0]}', 'Here:\n```json\n{"a": [1, 2], "b": null}\n```'),
        ('{"a": [2, 1], "b": null}', '{"a": [1, 2]}', "", "{", '{"a": [true, 2], "b": null}', "[" * 5000),
    ),
    Example(
        {
            "keeps": {
                "type": "object", "required": ["n"], "additionalProperties": False,
                "properties": {
                    "n": {"type": "integer", "minimum": 1}, "t": {"type": "array", "items": {"enum": ["x"]}},
                },
            }
        },
        ('{"n": 3}', '{"n": 1, "t": ["x", "x"]}'),
        ('{"n": 0}', '{"n": true}', '{"n": "3"}', '{"t": []}', '{"n": 2, "u": 1}', '{"n": 2, "t": ["y"]}', "3"),
    ),
)  # fmt: skip


class JsonMatch(ByBlank):
    """See the module."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def grade(self, case: Case) -> Outcome:
        """1 if the answer is JSON, equals what is wanted and keeps the schema; parts for each of these."""
        spec = spec_of(Spec, case)
        try:
            found = read_json(case.answer[: self._config.max_chars + 1])
        except (ValueError, RecursionError):
            return outcome(False, "no JSON", {"json": 0.0})
        parts = {"json": 1.0}
        reasons = []
        if spec.value is not _ANY:
            parts["value"] = float(self._equal(found, spec.value))
            reasons += [] if parts["value"] else ["another value"]
        if spec.keeps is not None:
            fault = schema_fault(found, spec.keeps)
            parts["schema"] = float(not fault)
            reasons += [fault] if fault else []
        return outcome(not reasons, "; ".join(reasons) or "as wanted", parts)

    async def close(self) -> None:
        """Nothing is held."""

    def _equal(self, a: Any, b: Any) -> bool:
        if isinstance(a, bool) or isinstance(b, bool):
            return a is b
        if isinstance(a, int | float) and isinstance(b, int | float):
            try:
                return math.isclose(a, b, rel_tol=self._config.rel_tol, abs_tol=1e-12)
            except OverflowError:
                return a == b
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self._equal(a[key], b[key]) for key in b)
        if isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            if not self._config.order:
                a, b = sorted(a, key=_key), sorted(b, key=_key)
            return all(self._equal(x, y) for x, y in zip(a, b, strict=True))
        return type(a) is type(b) and bool(a == b)


def read_json(text: str) -> Any:
    """The value of a text that is JSON, or whose last fenced block is.

    Raises:
        ValueError, RecursionError: it is none.
    """
    block = last_block(text, ("json",))
    return json.loads(text if block is None else block, parse_constant=_refuse)


def schema_fault(value: Any, schema: Mapping[str, Any], where: str = "answer") -> str:
    """Why a value does not keep a schema, "" where it does. `schema` uses the keywords of `Spec.keeps` only."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind] if kind else []
    if kinds and not any(_is(value, one) for one in kinds):
        return f"{where} is no {' or '.join(kinds)}"
    for key in ("enum", "const"):
        if key in schema and not any(_same(value, one) for one in (schema[key] if key == "enum" else [schema[key]])):
            return f"{where} is none of the values allowed"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf):
        return f"{where} is out of range"
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", math.inf):
        return f"{where} is too short or too long"
    if isinstance(value, list):
        return _array_fault(value, schema, where)
    return _object_fault(value, schema, where) if isinstance(value, dict) else ""


def _array_fault(value: list[Any], schema: Mapping[str, Any], where: str) -> str:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
        return f"{where} has {len(value)} items"
    if schema.get("uniqueItems") and len({_key(one) for one in value}) < len(value):
        return f"{where} repeats an item"
    items = schema.get("items")
    faults = (schema_fault(one, items, f"{where}[{at}]") for at, one in enumerate(value)) if items else ()
    return next((fault for fault in faults if fault), "")


def _object_fault(value: dict[str, Any], schema: Mapping[str, Any], where: str) -> str:
    properties = schema.get("properties", {})
    missing = [key for key in schema.get("required", []) if key not in value]
    if missing:
        return f"{where} lacks {missing[0]!r}"
    further = schema.get("additionalProperties", True)
    for key, one in value.items():
        below = properties.get(key, further)
        if below is False:
            return f"{where} has a key too many"
        if isinstance(below, dict) and (fault := schema_fault(one, below, f"{where}.{key}"[:80])):
            return fault
    return ""


def _schemas(schema: Any, where: str, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schema and all below it. Raises ValueError where one is no object."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        raise ValueError(f"{where} must be an object, at most {_MAX_DEPTH} deep")
    yield where, schema
    below = {f"properties.{key}": one for key, one in schema.get("properties", {}).items()}
    if "items" in schema:
        below["items"] = schema["items"]
    if isinstance(schema.get("additionalProperties"), dict):
        below["additionalProperties"] = schema["additionalProperties"]
    for key, one in below.items():
        yield from _schemas(one, f"{where}.{key}", depth + 1)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _same(a: Any, b: Any) -> bool:
    return _key(a) == _key(b)


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def build(config: Config, given: Given) -> JsonMatch:
    """A grader; needs nothing."""
    return JsonMatch(config)
