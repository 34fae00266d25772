"""The simulator by rules: it acts a card out, and chooses what that leaves free by chances that the call settles."""

from __future__ import annotations

import hashlib
import json
import random

from noria.envs.simulated.card import Action, Args
from noria.envs.simulated.checking import REFUSED, Answer, lacking, placed, settled
from noria.envs.simulated.paths import NEW, Change, State, found, patched
from noria.envs.simulated.question import Fault, Question
from noria.envs.simulated.terms import filled, holds, value

#: What is said of a table without rows.
_EMPTY = "nothing there"


class Scripted:
    """Answers every question at once, the same words for the same state, call and seed."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.identity = f"rules:{seed}"

    def ask(self, question: Question, faults: tuple[Fault, ...], seed: int) -> str:
        """The answer as text, in the form that a model's has."""
        return acted(question.state, question.action, question.args, self._seed).text()

    def close(self) -> None:
        """Nothing is held."""


def acted(state: State, action: Action, args: Args, seed: int) -> Answer:
    """What the rules answer to a call."""
    if why := lacking(state, action, args):
        return Answer(REFUSED + why)
    told = json.dumps([state, action.name, dict(args)], sort_keys=True)
    chance = random.Random(hashlib.sha256(f"{seed}:{told}".encode()).hexdigest())
    names = {**state, **args, "luck": chance.randrange}
    changes, new = list(settled(state, action, args)), ""
    for effect in action.effects:
        pattern = placed(effect, args)
        if NEW in pattern.split("/"):
            table = pattern.split("/")[0]
            new = _unused(table, state)
            changes.append(Change("set", f"{table}/{new}", value(effect.value, {**names, "new": new})))
        elif effect.free:
            for path, it in found(pattern, state):
                if holds(effect.when, {**names, "it": it}):
                    changes.append(Change(effect.op, path, value(effect.value, {**names, "it": it})))
    after = patched(state, changes)
    said = filled(action.says, {**after, **args, "was": state, "new": new})
    return Answer(said.strip() or _EMPTY, tuple(changes))


def _unused(table: str, state: State) -> str:
    rows = state[table]
    letter = next(iter(rows), table)[0].upper()
    return next(key for key in (f"{letter}{n}" for n in range(1, len(rows) + 2)) if key not in rows)
