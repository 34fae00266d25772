"""A transition that a simulator proposes, read strictly and held to the card before it counts.

What a tool may touch, what it must change and to which value, when it must refuse, what must hold afterwards and what
an answer must say are all in the card. Only what the card leaves free is the simulator's to choose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from noria.envs.simulated.card import Action, Args, Domain, Effect, Rule
from noria.envs.simulated.paths import ANY, NEW, OPS, Change, PatchError, State, found, matches, patched
from noria.envs.simulated.paths import at as value_at
from noria.envs.simulated.schema import NONE
from noria.envs.simulated.terms import Names, filled, holds, value
from noria.tokens.calls import is_torn

REFUSED = "error: "
#: What a text calls an empty reference.
NOBODY = "none"
_MOST_CHARS, _MOST_OBSERVATION, _MOST_CHANGES = 20_000, 2_000, 32
_WORD = re.compile(r"[a-z0-9]+")


class Invalid(ValueError):
    """An answer that cannot count; the text is what the simulator is told."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a simulator says: the observation, and the changes of the state."""

    observation: str
    changes: tuple[Change, ...] = ()

    def text(self) -> str:
        """It in the form in which it is read."""
        patch = [change.data() for change in self.changes]
        return json.dumps({"observation": self.observation, "state_patch": patch})


def read(text: str) -> Answer:
    """An answer from its text.

    Raises:
        Invalid: it is not exactly one JSON object of the form that was asked for.
    """
    try:
        data = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant) if len(text) <= _MOST_CHARS else 0
    except (ValueError, RecursionError) as fault:
        raise Invalid(f"the answer is no JSON: {fault}") from fault
    if not isinstance(data, dict) or set(data) != {"observation", "state_patch"}:
        raise Invalid("the answer must be one JSON object of observation and state_patch alone")
    said, patch = data["observation"], data["state_patch"]
    if not isinstance(said, str) or not said.strip() or len(said) > _MOST_OBSERVATION or is_torn(said):
        raise Invalid(f"observation must be a text of 1 to {_MOST_OBSERVATION} characters")
    if "\x00" in said or not isinstance(patch, list) or len(patch) > _MOST_CHANGES:
        raise Invalid(f"state_patch must be a list of at most {_MOST_CHANGES} changes")
    return Answer(said.strip(), tuple(_change(one) for one in patch))


def checked(domain: Domain, state: State, action: Action, args: Args, answer: Answer) -> State:
    """The state after a transition.

    Raises:
        Invalid: the transition breaks the card.
    """
    failing = lacking(state, action, args)
    refused = answer.observation.startswith(REFUSED)
    if failing and not refused:
        raise Invalid(f"the call must be refused, the observation must begin with {REFUSED!r}: {failing}")
    if refused and not failing:
        raise Invalid("the call has all that it needs: it must go through, not be refused")
    if refused:
        if answer.changes:
            raise Invalid("a refused call must change nothing: state_patch must be []")
        return state
    new = _allowed(state, action, args, answer)
    try:
        after = patched(state, answer.changes)
    except PatchError as fault:
        raise Invalid(str(fault)) from fault
    if misfit := domain.schema.fault(after, after):
        raise Invalid(f"the state after it does not fit the schema: {misfit}")
    _determined(state, action, args, after)
    names = {**after, **args, "was": state, "new": new}
    _hold((*action.ensures, *domain.invariants), names)
    if lie := _unsaid(action, {**args, "new": new}, after, answer.observation):
        raise Invalid(lie)
    return after


def lacking(state: State, action: Action, args: Args) -> str:
    """Why a call must be refused, "" where it goes through."""
    names = {**state, **args}
    return next((filled(rule.says, names) for rule in action.needs if not holds(rule.test, names)), "")


def placed(effect: Effect, args: Args) -> str:
    """The pattern of an effect with the call's arguments in their places."""
    return effect.path.format(**args)


def settled(state: State, action: Action, args: Args) -> Iterator[Change]:
    """The changes that a call that goes through must make, new rows left out."""
    for effect in action.effects:
        if effect.free or NEW in placed(effect, args):
            continue
        for path, it in found(placed(effect, args), state):
            names = {**state, **args, "it": it}
            if holds(effect.when, names):
                made = None if effect.op == "delete" else value(effect.value, names)
                if effect.op != "set" or made != value_at(state, path):
                    yield Change(effect.op, path, made)


def _allowed(state: State, action: Action, args: Args, answer: Answer) -> str:
    """The key of the new row, "" without one. Raises Invalid: a change that no effect allows."""
    new, seen = "", set[str]()
    for change in answer.changes:
        fits = [
            (effect, it) for effect in action.effects
            if effect.op == change.op and (it := matches(placed(effect, args), change.path, state)) is not None
            and holds(effect.when, {**state, **args, "it": it})
        ]  # fmt: skip
        if not fits or change.path in seen:
            raise Invalid(f"{action.name} may not {change.op} {change.path[:80]!a} here")
        seen.add(change.path)
        if any(NEW in placed(effect, args).split("/") for effect, _ in fits):
            if new:
                raise Invalid(f"{action.name} makes one new row, not several")
            new = fits[0][1]
    if not new and any(NEW in placed(effect, args).split("/") for effect in action.effects):
        raise Invalid(f"{action.name} must set one new row: {placed(action.effects[0], args)}")
    return new


def _determined(state: State, action: Action, args: Args, after: State) -> None:
    """Raises Invalid: something that a call settles is otherwise."""
    for change in settled(state, action, args):
        there = value_at(after, change.path)
        if change.op == "append":
            right = isinstance(there, list) and there == [*value_at(state, change.path), change.value]
        else:
            right = there == change.value
        if not right:
            raise Invalid(f"{action.name} must {change.op} {change.path} {json.dumps(change.value)}")


def _hold(rules: tuple[Rule, ...], names: Names) -> None:
    for rule in rules:
        if not holds(rule.test, names):
            raise Invalid(f"afterwards it must hold that {rule.test}: {filled(rule.says, names)}")


def _unsaid(action: Action, args: Args, after: State, observation: str) -> str:
    """What an observation should say and does not, "" where it says all."""
    pieces = [_words(piece) for piece in re.split(r"[;\n]", observation)]
    for pattern in action.shows:
        for path, key in found(pattern.format(**args), after):
            there = value_at(after, path)
            wanted = _words(" ".join(map(str, there)) if isinstance(there, list) else str(there) or NOBODY)
            where = [piece for piece in pieces if key.lower() in piece] if ANY in pattern else pieces
            if not any(wanted <= piece for piece in where):
                shown = NOBODY if there == NONE else there
                return f"the observation must say that {path} is {shown}"
    return ""


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _change(data: Any) -> Change:
    op = data.get("op") if isinstance(data, dict) else None
    keys = {"op", "path"} if op == "delete" else {"op", "path", "value"}
    if op not in OPS or set(data) != keys or not isinstance(data["path"], str):
        raise Invalid('a change is {"op": "set" or "append", "path": …, "value": …} or {"op": "delete", "path": …}')
    return Change(op, data["path"], data.get("value"))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is given twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
