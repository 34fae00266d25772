"""What a domain is: a state with a schema, invariants, and tools with what each needs and may change.

All of it is data, so that one and the same card is told to a model, checked against, and acted out by rules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from noria.core.types import Tool
from noria.envs.simulated.paths import Op, State
from noria.envs.simulated.schema import Record, Ref, Text, Whole, Word
from noria.tokens.calls import Call

#: Values of a call's arguments in the types of the tool.
Args = Mapping[str, Any]
Param = Whole | Word | Text | Ref


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition, and what is said where it does not hold; terms in braces are filled in."""

    test: str
    says: str


@dataclass(frozen=True, slots=True)
class Effect:
    """What a call that goes through does at one place.

    path    a pattern; arguments stand in braces, `*` is every key there, `?` one new key
    value   a term over the state before, with `it` for the key of `*` and `new` for that of `?`
    free    whether another value than `value` will do, within the schema and the tool's `ensures`: then it is only what
            the rules choose, and a model chooses for itself
    when    a term that says whether it happens at all
    """

    path: str
    value: str = ""
    op: Op = "set"
    free: bool = False
    when: str = "True"


@dataclass(frozen=True, slots=True)
class Action:
    """A tool.

    kind       look: reads; make: does what is asked, as determined; let: leaves something to the other side
    needs      without these a call is refused and changes nothing; with them it goes through
    ensures    what must hold after a call that went through: terms with `was` for the state before
    says       how the rules answer, over the state after
    shows      patterns of values that every answer must hold as words
    """

    name: str
    kind: Literal["look", "make", "let"]
    doc: str
    says: str
    params: Mapping[str, Param] = field(default_factory=dict)
    needs: tuple[Rule, ...] = ()
    effects: tuple[Effect, ...] = ()
    ensures: tuple[Rule, ...] = ()
    shows: tuple[str, ...] = ()

    @property
    def tool(self) -> Tool:
        """It as a task shows it to the policy."""
        kinds = {name: "integer" if isinstance(kind, Whole) else "string" for name, kind in self.params.items()}
        return Tool(self.name, self.doc, {name: (kinds[name], _meaning(kind)) for name, kind in self.params.items()})


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that a task may ask for.

    draw     its parameters on a state, None where there is nothing to ask
    tell     the sentence, with parameters in braces
    wants    conditions on the final state, likewise
    free     patterns of what may differ from the start, likewise
    plan     the calls still to be made from a state, by one of two ways (0 or 1)
    answers  (question, term over the final state), likewise
    """

    draw: Callable[[random.Random, State], dict[str, Any] | None]
    tell: str
    wants: tuple[str, ...]
    free: tuple[str, ...]
    plan: Callable[[State, Args, int], Sequence[Call]]
    answers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """A card, how its states and tasks are drawn, and which tools read everything.

    `about` is what a model that plays it is told of how things are there, in words.
    """

    name: str
    about: str
    schema: Record
    invariants: tuple[Rule, ...]
    actions: tuple[Action, ...]
    start: Callable[[random.Random, int], State]
    asks: Mapping[str, Ask]
    reads: tuple[str, ...]

    @property
    def by_name(self) -> dict[str, Action]:
        """Its tools by their names."""
        return {action.name: action for action in self.actions}


def _meaning(kind: Param) -> str:
    match kind:
        case Whole(low, high):
            return f"{low} to {high}"
        case Word(values):
            return "one of " + ", ".join(values)
        case Ref(table):
            return f"a key of {table}"
        case Text(most):
            return f"at most {most} characters"
