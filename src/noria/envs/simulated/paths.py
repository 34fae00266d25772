"""Paths into a state, patterns of paths, and patches: lists of changes that are made on a copy.

A path is keys with slashes between, `tickets/T3/agent`. In a pattern `*` is any key that there is and `?` a key that is
new, in the place of a row.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

State = dict[str, Any]
Op = Literal["set", "append", "delete"]
ANY, NEW = "*", "?"
OPS: tuple[Op, ...] = ("set", "append", "delete")


class PatchError(ValueError):
    """A change that cannot be made; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a state; `value` is None where something is deleted."""

    op: Op
    path: str
    value: Any = None

    def data(self) -> dict[str, Any]:
        """It as it stands in an answer."""
        return {"op": self.op, "path": self.path} | ({} if self.op == "delete" else {"value": self.value})


def patched(state: State, changes: Sequence[Change]) -> State:
    """A copy of the state with the changes made.

    Raises:
        PatchError: a path leads nowhere, or a value is nested too deeply to be one of a state.
    """
    after = copy.deepcopy(state)
    for change in changes:
        *way, last = change.path.split("/")
        inside: Any = after
        for key in way:
            inside = inside.get(key) if isinstance(inside, dict) else None
        known = isinstance(inside, dict) and last in inside
        if not isinstance(inside, dict) or (change.op != "set" and not known):
            raise PatchError(f"path {change.path[:80]!a} is not in the state")
        if change.op == "delete":
            del inside[last]
        elif change.op == "append":
            if not isinstance(inside[last], list):
                raise PatchError(f"path {change.path[:80]!a} is no list")
            inside[last].append(_copied(change))
        else:
            inside[last] = _copied(change)
    return after


def _copied(change: Change) -> Any:
    try:
        return copy.deepcopy(change.value)
    except RecursionError as fault:
        raise PatchError(f"the value of path {change.path[:80]!a} is nested too deeply") from fault


def matches(pattern: str, path: str, state: State) -> str | None:
    """What stands for the `*` or `?` of a pattern that a path fits ("" where it has neither), None where it does not.

    `state` is the one before the change: it decides what is new.
    """
    wanted, given = pattern.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    star, inside = "", state
    for want, key in zip(wanted, given, strict=True):
        known = isinstance(inside, dict) and key in inside
        if want == NEW:
            if known:
                return None
            star = key
        elif want == ANY:
            if not known:
                return None
            star = key
        elif want != key:
            return None
        inside = inside[key] if known else {}
    return star


def found(pattern: str, state: State) -> list[tuple[str, str]]:
    """The paths of a state that fit a pattern without `?`, each with what stands for its `*`."""
    heads: list[tuple[list[str], str, Any]] = [([], "", state)]
    for want in pattern.split("/"):
        step: list[tuple[list[str], str, Any]] = []
        for way, star, inside in heads:
            keys = list(inside) if want == ANY and isinstance(inside, dict) else [want]
            step += [
                ([*way, key], key if want == ANY else star, inside[key])
                for key in keys
                if isinstance(inside, dict) and key in inside
            ]
        heads = step
    return [("/".join(way), star) for way, star, _ in heads]


def at(state: State, path: str) -> Any:
    """What stands at a path; None where it leads nowhere."""
    inside: Any = state
    for key in path.split("/"):
        inside = inside.get(key) if isinstance(inside, dict) else None
    return inside


def differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two states differ, as paths: values, rows that only one of them has, lists as a whole."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            inner = f"{path}/{key}" if path else key
            if key in one and key in other:
                yield from differing(one[key], other[key], inner)
            else:
                yield inner
    elif type(one) is not type(other) or one != other:
        yield path
