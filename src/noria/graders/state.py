"""Checks of a final state: values in a tree of JSON, texts of files, each with its weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders.base import ByBlank, Case, Example, Given, spec_of
from noria.graders.json_match import schema_fault

NEEDS: tuple[str, ...] = ()
_ABSENT = object()
Op = Literal["is", "is_not", "at_least", "at_most", "holds", "lacks", "there", "gone", "size", "same"]


class Config(Checked):
    """What some of the checks earn."""

    reward: Literal["all", "share"] = Field(
        "all", description="all = 1 if all hold; share = the weight of those that do"
    )
    abs_tol: float = Field(default=1e-9, ge=0, description="difference up to which numbers are equal")


class Check(Checked):
    """One check. `at` is a path of keys and indices, as `orders.0.paid`; `file:notes.txt` is the text of a file.

    is, is_not: equal to `value`, or not; at_least, at_most: a number; holds, lacks: a text, list or object with or
    without `value`; there, gone: whether there is such a place; size: how many; same: unchanged since `before`.
    """

    at: str = Field(min_length=1)
    op: Op = "is"
    value: Any = None
    weight: float = Field(default=1.0, gt=0, le=1e6)


class Spec(Checked):
    """What must be so at the end."""

    checks: tuple[Check, ...] = Field(min_length=1, description="all of them must hold")
    before: dict[str, Any] = Field(default_factory=dict, description="the state at first, for the checks `same`")
    closed: bool = Field(
        default=False, description="whether top-level keys that no check names must be as they were before"
    )

    @model_validator(mode="after")
    def _can_compare(self) -> Spec:
        for check in self.checks:
            if check.op in ("at_least", "at_most", "size") and not isinstance(check.value, int | float):
                raise ValueError(f"value must be a number for op {check.op}: got {check.value!r}")
        return self


_BEFORE = {"orders": [{"paid": False}], "stock": {"nuts": 4}, "log": ["start"], "owner": "Ada"}
_RIGHT = {"orders": [{"paid": True}], "stock": {"nuts": 3}, "log": ["start", "paid"], "owner": "Ada"}
EXAMPLES = (
    Example(
        {
            "checks": [
                {"at": "orders.0.paid", "value": True}, {"at": "stock.nuts", "op": "at_most", "value": 3},
                {"at": "log", "op": "holds", "value": "paid"}, {"at": "orders.1", "op": "gone"},
                {"at": "file:note.txt", "op": "holds", "value": "done"},
            ],
            "before": _BEFORE, "closed": True,
        },
        ({"state": _RIGHT, "files": {"note.txt": "all done\n"}},),
        (
            {"state": _RIGHT}, {"state": {}}, "paid", {"state": _BEFORE, "files": {"note.txt": "done"}},
            {"state": {**_RIGHT, "owner": "Eve"}, "files": {"note.txt": "done"}},
            {"state": {**_RIGHT, "stock": {"nuts": "3"}}, "files": {"note.txt": "done"}},
        ),
    ),
)  # fmt: skip


class StateChecks(ByBlank):
    """See the module."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def grade(self, case: Case) -> Outcome:
        """The reward; the part `checks` is the weight of those that hold."""
        spec = spec_of(Spec, case)
        held = [self._holds(check, case, spec) for check in spec.checks]
        weights = [check.weight for check in spec.checks]
        share = sum(w for w, ok in zip(weights, held, strict=True) if ok) / sum(weights)
        touched = _touched(spec, case.state) if spec.closed else []
        if touched:
            return Outcome(0.0, {"checks": share, "untouched": 0.0}, f"also changed {touched[0]!r:.60}")
        failed = [f"{check.at} {check.op}" for check, ok in zip(spec.checks, held, strict=True) if not ok]
        parts = {"checks": share} | ({"untouched": 1.0} if spec.closed else {})
        reward = share if self._config.reward == "share" else float(not failed)
        return Outcome(reward, parts, f"fails: {'; '.join(failed)}"[:200] if failed else "all hold")

    async def close(self) -> None:
        """Nothing is held."""

    def _holds(self, check: Check, case: Case, spec: Spec) -> bool:
        if check.at.startswith("file:"):
            found: Any = case.files.get(check.at[5:], _ABSENT)
            was: Any = _ABSENT
        else:
            found, was = look(case.state, check.at), look(spec.before, check.at)
        if check.op in ("there", "gone"):
            return (found is _ABSENT) == (check.op == "gone")
        if check.op == "same":
            return (found is _ABSENT and was is _ABSENT) or self._equal(found, was)
        if found is _ABSENT:
            return check.op in ("is_not", "lacks")
        if check.op in ("is", "is_not"):
            return self._equal(found, check.value) == (check.op == "is")
        if check.op in ("holds", "lacks"):
            return self._within(check.value, found) == (check.op == "holds")
        if check.op == "size":
            return isinstance(found, str | list | dict) and len(found) == check.value
        if isinstance(found, bool) or not isinstance(found, int | float):
            return False
        tolerance = self._config.abs_tol
        return bool(found >= check.value - tolerance if check.op == "at_least" else found <= check.value + tolerance)

    def _within(self, value: Any, found: Any) -> bool:
        if isinstance(found, str):
            return isinstance(value, str) and value in found
        return isinstance(found, list | dict) and any(self._equal(one, value) for one in found)

    def _equal(self, a: Any, b: Any) -> bool:
        if isinstance(a, bool) or isinstance(b, bool):
            return a is b
        if isinstance(a, int | float) and isinstance(b, int | float):
            return math.isclose(a, b, rel_tol=0, abs_tol=self._config.abs_tol)
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self._equal(a[key], b[key]) for key in b)
        if isinstance(a, list | tuple) and isinstance(b, list | tuple):
            return len(a) == len(b) and all(self._equal(x, y) for x, y in zip(a, b, strict=True))
        return type(a) is type(b) and bool(a == b)


def look(state: Mapping[str, Any], path: str) -> Any:
    """What stands at a path of keys and indices; a marker where there is no such place."""
    found: Any = state
    for part in path.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list | tuple) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return _ABSENT
    return found


def _touched(spec: Spec, state: Mapping[str, Any]) -> list[str]:
    """Top-level keys that no check names and that are not as they were."""
    named = {check.at.partition(".")[0] for check in spec.checks}
    keys = [key for key in {**spec.before, **state} if key not in named]
    return [
        key
        for key in keys
        if key not in state or key not in spec.before or schema_fault(state[key], {"const": spec.before[key]})
    ]


def build(config: Config, given: Given) -> StateChecks:
    """A grader; needs nothing."""
    return StateChecks(config)
