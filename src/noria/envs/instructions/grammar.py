"""⟨procedure, relation, value⟩: what a constraint is, what it says in numbers, and when it holds.

A `Kind` is one entry of the grammar. Drawn with values it is a `Constraint`. Its procedure measures the answer, its
relation compares the result with the value. Kinds that measure a number also say between which bounds it must lie
(`claims`), which is what `conflicts` reasons with.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from noria.envs.instructions.drafts import Draft
from noria.envs.instructions.lexicon import Topic
from noria.envs.instructions.pens import Pen

#: Plain JSON: numbers and words that fill the wordings.
Values = Mapping[str, Any]
#: Least and greatest admissible number; the greatest may be infinite.
Bounds = tuple[float, float]
Relation = Literal[
    "=", "!=", "<", "<=", ">", ">=", "in range", "no", "has", "contains", "starts", "ends", "before", "after", "is",
    "matches",
]  # fmt: skip
Bring = Callable[[Pen, Draft, Values, Bounds], None]
Edit = Callable[[Pen, Draft, Values], None]

#: The order in which properties are mended: what rewrites sentences first, what only dresses them last.
LAYERS = ("shape", "ban", "word", "length", "place", "case", "dress")
Layer = Literal["shape", "ban", "word", "length", "place", "case", "dress"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One entry of the grammar.

    name        its name in tasks and parts
    layer       when it is mended, see `LAYERS`
    measure     the procedure: text and values -> number, word or list of words
    relation    how the result is compared with the value
    draw        random numbers and topic -> values
    wordings    sentences that ask for it, with values in braces; `{s}` is the plural's s of `n`
    note        the triplet in short, as a thought writes it
    mend        edits a draft so that the constraint holds
    spoil       edits a draft so that it does not
    facet       what the procedure counts, "" where it counts nothing; may hold values, as `count:{w}`
    more        bounds that hold too wherever the constraint does
    unseen      kept for the split `unseen`
    """

    name: str
    layer: Layer
    measure: Callable[[str, Values], Any]
    relation: Relation
    draw: Callable[[random.Random, Topic], dict[str, Any]]
    wordings: tuple[str, ...]
    note: str
    mend: Edit
    spoil: Edit
    facet: str = ""
    more: Callable[[Values], Mapping[str, Bounds]] = field(default=lambda values: {})
    unseen: bool = False

    @property
    def triplet(self) -> str:
        """The entry as the grammar writes it."""
        return f"<{self.facet or self.name}, {self.relation}, {{{', '.join(_slots(self))}}}>"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A kind with its values."""

    kind: Kind
    values: Values

    def holds(self, text: str) -> bool:
        """Whether the text keeps the constraint, to the letter."""
        return related(self.kind.relation, self.kind.measure(text, self.values), self.values)

    def wording(self, rng: random.Random) -> str:
        """One of the sentences that ask for it."""
        plural = "" if self.values.get("n") == 1 else "s"
        return rng.choice(self.kind.wordings).format(**self.values, s=plural)

    def note(self) -> str:
        """The triplet in short."""
        return self.kind.note.format(**self.values)

    def facet(self) -> str:
        """What is counted, "" where nothing is."""
        return self.kind.facet.format(**self.values)

    def claims(self) -> dict[str, Bounds]:
        """Bounds of countable properties that hold wherever the constraint does."""
        claimed = dict(self.kind.more(self.values))
        own = bounds(self.kind.relation, self.values)
        if self.kind.facet and own:
            claimed[self.facet()] = own
        return claimed

    def to_json(self) -> list[Any]:
        """As `Task.data` holds it."""
        return [self.kind.name, dict(self.values)]


def bounds(relation: Relation, values: Values) -> Bounds | None:
    """The interval that a relation between numbers leaves; None where it leaves none or two."""
    if relation == "in range":
        return float(values["lo"]), float(values["hi"])
    if relation in ("no", "has"):
        return (0.0, 0.0) if relation == "no" else (1.0, math.inf)
    if relation not in ("=", "<", "<=", ">", ">="):
        return None
    n = float(values["n"])
    return {"=": (n, n), "<": (0.0, n - 1), "<=": (0.0, n), ">": (n + 1, math.inf), ">=": (n, math.inf)}[relation]


def related(relation: Relation, found: Any, values: Values) -> bool:
    """Whether `found` stands in the relation to the values."""
    allowed = bounds(relation, values)
    if allowed:
        return allowed[0] <= float(found) <= allowed[1]
    if relation in ("before", "after"):
        first, second = values["w"], values["v"]
        if first not in found or second not in found:
            return False
        earlier: bool = found.index(first) < found.index(second)
        return earlier == (relation == "before")
    if relation == "contains":
        return all(values[key] in found for key in ("w", "v") if key in values)
    if relation == "!=":
        return bool(found) and bool(found != values["w"])
    if relation == "starts":
        return bool(found) and bool(found[0] == values["w"])
    if relation == "ends":
        before = found.removesuffix(values["w"])
        return bool(before != found) and not (before[-1:].isalnum() or before.endswith("_"))
    if relation == "matches":
        return bool(found) and bool(found[0] == values["w"] and found[-1] == values["v"])
    return bool(found == values["w"])


def outside(allowed: Bounds, rng: random.Random) -> Bounds:
    """One number just outside of an interval: off by one."""
    lo, hi = allowed
    sides: Sequence[float] = [n for n in (lo - 1, hi + 1) if 0 <= n < math.inf]
    chosen = rng.choice(sides)
    return chosen, chosen


def counted(
    name: str, layer: Layer, facet: str, relation: Relation, measure: Callable[[str, Values], float],
    draw: Callable[[random.Random, Topic], dict[str, Any]], wordings: tuple[str, ...], note: str, bring: Bring,
    *, more: Callable[[Values], Mapping[str, Bounds]] = lambda values: {}, unseen: bool = False,
) -> Kind:  # fmt: skip
    """A kind whose procedure counts: `bring` moves the count into an interval, which both mends and spoils."""

    def mend(pen: Pen, draft: Draft, values: Values) -> None:
        allowed = bounds(relation, values)
        assert allowed is not None
        bring(pen, draft, values, allowed)

    def spoil(pen: Pen, draft: Draft, values: Values) -> None:
        allowed = bounds(relation, values)
        assert allowed is not None
        bring(pen, draft, values, outside(allowed, pen.rng))

    return Kind(name, layer, measure, relation, draw, wordings, note, mend, spoil, facet, more, unseen)


def _slots(kind: Kind) -> list[str]:
    return [key for key in ("n", "lo", "hi", "w", "v", "k", "l") if f"{{{key}}}" in "".join(kind.wordings)]
