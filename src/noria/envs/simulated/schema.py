"""What values of a state may be: whole numbers, words of a list, texts, references, records, tables and lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: A reference that points nowhere, where it may.
NONE = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of a range."""

    low: int
    high: int

    def fault(self, value: Any, state: Mapping[str, Any]) -> str:
        """Why a value does not fit, "" where it does."""
        fits = type(value) is int and self.low <= value <= self.high
        return "" if fits else f"must be a whole number {self.low} to {self.high}"

    def described(self) -> dict[str, Any]:
        """It in words of JSON Schema."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Word:
    """One of some words."""

    values: tuple[str, ...]

    def fault(self, value: Any, state: Mapping[str, Any]) -> str:
        """Why a value does not fit, "" where it does."""
        return "" if isinstance(value, str) and value in self.values else f"must be one of {', '.join(self.values)}"

    def described(self) -> dict[str, Any]:
        """It in words of JSON Schema."""
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class Text:
    """Any text of printable ASCII up to a length."""

    most: int = 80

    def fault(self, value: Any, state: Mapping[str, Any]) -> str:
        """Why a value does not fit, "" where it does."""
        fits = isinstance(value, str) and len(value) <= self.most and value.isascii() and value.isprintable()
        return "" if fits else f"must be a text of at most {self.most} printable characters"

    def described(self) -> dict[str, Any]:
        """It in words of JSON Schema."""
        return {"type": "string", "maxLength": self.most}


@dataclass(frozen=True, slots=True)
class Ref:
    """A key of a table at the top of the state; `optional`: or "" for none."""

    table: str
    optional: bool = False

    def fault(self, value: Any, state: Mapping[str, Any]) -> str:
        """Why a value does not fit, "" where it does."""
        known = state[self.table]
        fits = isinstance(value, str) and (value in known or (self.optional and value == NONE))
        return "" if fits else f"must be a key of {self.table}" + (' or ""' if self.optional else "")

    def described(self) -> dict[str, Any]:
        """It in words of JSON Schema."""
        return {"type": "string", "description": f"a key of {self.table}" + (' or ""' if self.optional else "")}


@dataclass(frozen=True, slots=True)
class Record:
    """An object with exactly these fields."""

    fields: Mapping[str, Kind]

    def fault(self, value: Any, state: Mapping[str, Any]) -> str:
        """Why a value does not fit, "" where it does."""
        if not isinstance(value, dict) or set(value) != set(self.fields):
            return f"must be an object of {', '.join(self.fields)}"
        found = ((key, kind.fault(value[key], state)) for key, kind in self.fields.items())
        return next((f"{key} {fault}" for key, fault in found if fault), "")

    def described(self) -> dict[str, Any]:
        """It in words of JSON Schema."""
        inside = {key: kind.described() for key, kind in self.fields.items()}
        return {
            "type": "object", "properties": inside, "required": list(self.fields), "additionalProperties": False
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """An object of rows by their keys, which are short words."""

    row: Record
    most: int = 16

    def fault(self, value: Any, state: Mapping[str, Any]) -> str:
        """Why a value does not fit, "" where it does."""
        if not isinstance(value, dict) or len(value) > self.most:
            return f"must be an object of at most {self.most} rows"
        bad = next((key for key in value if not (key.isascii() and key.isalnum() and len(key) <= 12)), None)
        if bad is not None:
            return f"has a key that is no short word: {bad[:20]!a}"
        found = ((key, self.row.fault(row, state)) for key, row in value.items())
        return next((f"{key} {fault}" for key, fault in found if fault), "")

    def described(self) -> dict[str, Any]:
        """It in words of JSON Schema."""
        return {"type": "object", "additionalProperties": self.row.described(), "maxProperties": self.most}


@dataclass(frozen=True, slots=True)
class Many:
    """A list of values of one kind."""

    each: Kind
    most: int = 12

    def fault(self, value: Any, state: Mapping[str, Any]) -> str:
        """Why a value does not fit, "" where it does."""
        if not isinstance(value, list) or len(value) > self.most:
            return f"must be a list of at most {self.most}"
        return next((f"[{i}] {why}" for i, one in enumerate(value) if (why := self.each.fault(one, state))), "")

    def described(self) -> dict[str, Any]:
        """It in words of JSON Schema."""
        return {"type": "array", "items": self.each.described(), "maxItems": self.most}


Kind = Whole | Word | Text | Ref | Record | Table | Many
