"""A domain in the making: tables and operations are added to it by the mechanisms."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from noria.envs.tooluse.spec import Check, Domain, Field, Limit, Operation, Pack, Param, Table
from noria.envs.tooluse.themes import LIFECYCLES, STATE_NAMES, VERBS, Lifecycle, Setting, plural

_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ"
#: Highest number of a quantity: two digits.
TOP = 99


@dataclass(slots=True)
class Draft:
    """One table in the making. `state` and `work` name its lifecycle's field and the state in which work is done."""

    role: str
    noun: str
    letter: str
    fields: list[Field] = field(default_factory=list)
    lifecycle: Lifecycle | None = None
    state: str = ""
    grows: bool = False

    @property
    def table(self) -> str:
        """The table's name."""
        return plural(self.noun)

    def has(self, name: str) -> bool:
        """Whether a field has this name."""
        return any(field.name == name for field in self.fields)

    @property
    def work(self) -> str:
        """The state in which work is done; "" without a lifecycle."""
        return self.lifecycle.states[0] if self.lifecycle else ""


class Sketch:
    """All tables and operations so far, and the one source of chance."""

    def __init__(self, rng: random.Random, setting: Setting) -> None:
        self.rng = rng
        self.setting = setting
        self.drafts: list[Draft] = []
        self.operations: list[Operation] = []
        self.limits: list[Limit] = []
        self.packs: list[Pack] = []
        self._verbs: dict[str, str] = {}

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self.rng.random() < share

    def add(self, role: str, nouns: Sequence[str]) -> Draft:
        """A new table with a noun and a letter of its own."""
        free = [noun for noun in nouns if noun not in {draft.noun for draft in self.drafts}]
        noun = self.rng.choice(free)
        taken = {draft.letter for draft in self.drafts}
        wanted = [*noun.upper().replace("_", ""), *_ALPHABET]
        draft = Draft(role, noun, next(letter for letter in wanted if letter in _ALPHABET and letter not in taken))
        self.drafts.append(draft)
        return draft

    def live(self, draft: Draft) -> None:
        """Give a table a lifecycle that no other table has."""
        used = {other.lifecycle for other in self.drafts}
        kind = {"person": "p", "thing": "t"}.get(draft.role, "s")
        draft.lifecycle = self.rng.choice([cycle for cycle in LIFECYCLES if kind in cycle.fits and cycle not in used])
        draft.state = self.rng.choice(STATE_NAMES)
        draft.fields.append(Field(draft.state, "enum", draft.lifecycle.states))

    def verb(self, kind: str) -> str:
        """The verb that this domain uses for a kind."""
        return self._verbs.setdefault(kind, self.rng.choice(VERBS[kind]))

    def op(
        self, name: str, kind: str, doc: str, draft: Draft, params: Sequence[Param], checks: Sequence[Check],
        effects: Sequence[str],
    ) -> None:  # fmt: skip
        """Add an operation; one whose name is taken already is left out."""
        if name not in {operation.name for operation in self.operations}:
            self.operations.append(
                Operation(name, kind, doc, draft.table, tuple(params), tuple(checks), tuple(effects))
            )

    def works(self, draft: Draft, name: str = "") -> list[Check]:
        """That the row of parameter `name` is in its working state, or at least not in another one."""
        if not draft.lifecycle:
            return []
        name = name or draft.noun
        cell = f"{name}.{draft.state}"
        says = f"{{{name}}} is {{{cell}}}"
        others = draft.lifecycle.states[1:]
        if len(others) > 1 and self.chance(0.4):
            return [Check(f"{cell} != '{others[-1]}'", f"{says}, must not be {others[-1]}")]
        return [Check(f"{cell} == '{draft.work}'", f"{says}, must be {draft.work}")]

    def finished(self, name: str, title: str) -> Domain:
        """The domain; operations in the order of their tables, reads first."""
        order = {draft.table: at for at, draft in enumerate(self.drafts)}
        operations = sorted(self.operations, key=lambda op: (order[op.table], not op.reads))
        tables = tuple(Table(d.table, d.noun, d.letter, tuple(d.fields), d.grows) for d in self.drafts)
        return Domain(name, title, tables, tuple(operations), tuple(self.limits), tuple(self.packs))


def id_of(draft: Draft, name: str = "") -> Param:
    """A parameter that is an id of the table; it is named by the noun."""
    return Param(name or draft.noun, "id", table=draft.table)


def number(name: str, measures: str, low: int = 1, high: int = TOP) -> Param:
    """A parameter that is a whole number."""
    return Param(name, "int", low=low, high=high, measures=measures)
