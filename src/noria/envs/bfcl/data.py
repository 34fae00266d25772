"""The data of BFCL v4 as the package `bfcl-eval` ships it (version 2026.3.23): questions, functions, answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from noria.bases.package import Package
from noria.core.errors import UserError
from noria.core.types import Tool
from noria.envs.bfcl.formats import Form, forms

CALLS = (
    "simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple",
    "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple",
)  # fmt: skip
ABSTAIN = ("irrelevance", "live_irrelevance")
RELEVANT = ("live_relevance",)
TURNS = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
FORMATS = ("format_sensitivity",)
CATEGORIES = (*CALLS, *ABSTAIN, *RELEVANT, *TURNS, *FORMATS)
#: Categories of BFCL v4 that cannot be asked here, by the beginnings of their names, and why.
_LEFT_OUT = {
    "web_search": "it asks a search engine on the internet",
    "memory": "its answers depend on what the same model wrote down in conversations before",
}

#: Types of the data's function descriptions, as JSON Schema has them; Java's and JavaScript's are written as text.
_KINDS = {
    "integer": "integer", "float": "number", "number": "number", "boolean": "boolean", "array": "array",
    "tuple": "array", "dict": "object", "object": "object",
}  # fmt: skip
#: Which file describes the functions of a simulated service.
_SERVICES = {
    "GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api",
    "TwitterAPI": "posting_api", "TicketAPI": "ticket_api", "TradingBot": "trading_bot", "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}  # fmt: skip
LANGUAGES = {"simple_java": "Java", "simple_javascript": "JavaScript"}


@dataclass(frozen=True)
class Entry:
    """One question of a category; `answer` is the ground truth, empty where nothing is to be called."""

    category: str
    row: Mapping[str, Any]
    functions: Sequence[Mapping[str, Any]]
    answer: Sequence[Any]
    form: Form | None = None

    @property
    def listed(self) -> str:
        """The category under which it is asked; `category` is the one by whose rules it is graded."""
        return self.category if self.form is None else FORMATS[0]

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def language(self) -> str:
        """The language whose literals arguments are, "" where they are values."""
        return LANGUAGES.get(self.category, "")

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The name of each function by the one that is shown, which has no dots."""
        return {shown_name(str(f["name"])): str(f["name"]) for f in self.functions}

    def described(self, name: str) -> Mapping[str, Any]:
        """The description of a function."""
        return next(f for f in self.functions if f["name"] == name)

    def held_back(self) -> Mapping[int, Sequence[str]]:
        """Names of functions that are shown from a turn on, by turn."""
        return {int(turn): names for turn, names in self.row.get("missed_function", {}).items()}

    def tools(self) -> tuple[Tool, ...]:
        """The functions as tools, without those that are held back; none where they stand in the system's words."""
        if self.form is not None:
            return ()
        later = {name for names in self.held_back().values() for name in names}
        return tuple(tool_of(f, self.language) for f in self.functions if f["name"] not in later)


class Data:
    """The categories of a package, read when asked for."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._read: dict[str, dict[str, Entry]] = {}
        self._services: dict[str, list[dict[str, Any]]] = {}

    def entries(self, category: str) -> Mapping[str, Entry]:
        """The questions of a category by id. Raises UserError: the package lacks a file, or it is damaged."""
        if category not in self._read and category in FORMATS:
            self._read[category] = {entry.id: entry for entry in self._formed(category)}
        if category not in self._read:
            file = f"BFCL_v4_{category}.json"
            answers: dict[str, Any] = {}
            if category not in (*ABSTAIN, *RELEVANT):
                answers = {r["id"]: r["ground_truth"] for r in self._package.rows(f"data/possible_answer/{file}")}
            entries = (
                Entry(category, row, self._functions(row), answers.get(row["id"], ()))
                for row in self._package.rows(f"data/{file}")
            )
            self._read[category] = {entry.id: entry for entry in entries}
        return self._read[category]

    def _formed(self, category: str) -> Iterator[Entry]:
        """Questions of other categories in every form, numbered as the package numbers them."""
        file = f"data/BFCL_v4_{category}.json"
        try:
            wanted: Mapping[str, Sequence[str]] = json.loads(self._package.read(file))
            base = [self.entries(of)[each] for of, ids in wanted.items() for each in ids]
        except (ValueError, KeyError, AttributeError) as fault:
            raise UserError(f"path must hold sound data: {file}: {type(fault).__name__}: {fault}") from fault
        for form in forms():
            for number, entry in enumerate(base):
                row = {**entry.row, "id": f"{category}_{number}:{form.name}:{entry.id}"}
                yield replace(entry, row=row, form=form)

    def _functions(self, row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        if "function" in row:
            found: Sequence[Mapping[str, Any]] = row["function"]
            return found
        left_out = set(row.get("excluded_function", ()))
        return [f for name in row["involved_classes"] for f in self._service(name) if f["name"] not in left_out]

    def _service(self, name: str) -> list[dict[str, Any]]:
        if name not in self._services:
            self._services[name] = self._package.rows(f"data/multi_turn_func_doc/{_SERVICES[name]}.json")
        return self._services[name]


def why_left_out(category: str) -> str:
    """Why a category of the package is not asked, "" where it is, or is none."""
    return next((why for start, why in _LEFT_OUT.items() if category.startswith(start)), "")


def shown_name(name: str) -> str:
    """A function's name as models are shown it: tools have no dots in their names."""
    return name.replace(".", "_")


def tool_of(function: Mapping[str, Any], language: str) -> Tool:
    """A function as a tool; what a parameter is in detail stands in its meaning."""
    parameters = function["parameters"]
    required = parameters.get("required", ())
    shown = {}
    for name, each in parameters["properties"].items():
        kind = "string" if language else _KINDS.get(each.get("type", ""), "string")
        notes = [str(each.get("description", "")).strip()]
        if language:
            notes.append(f"a {language} literal of type {each.get('type')}")
        notes += [f"{key}: {json.dumps(each[key], ensure_ascii=False)}" for key in _DETAILS if key in each]
        if name not in required:
            notes.append("optional")
        shown[name] = (kind, "; ".join(note for note in notes if note))
    return Tool(shown_name(str(function["name"])), str(function.get("description", "")).strip(), shown)


_DETAILS = ("enum", "default", "items", "properties")


def said_in(messages: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """The system's words and the user's of a turn; a dialogue is told with its speakers."""
    system = "\n".join(m["content"] for m in messages if m["role"] == "system")
    rest = [m for m in messages if m["role"] != "system"]
    if all(m["role"] == "user" for m in rest):
        return system, "\n".join(m["content"] for m in rest)
    return system, "\n".join(f"{m['role']}: {m['content']}" for m in rest)
