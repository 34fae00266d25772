"""Questions as data: variables of a kind, clues about them, and what is asked of the first.

The clues make a tree whose root is variable 0. A clue travels as a plain list whose first item is its tag:

    ["rel", s, relation, o, wording]      s has this relation to o; wording is the index of the words used
    ["name", v, name]                     v is the entity of this name
    ["attr", v, attribute, bound, value]  a value is, is below or is above
    ["same", v, attribute, w, other]      two dates coincide
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from noria.envs.deepsearch.graph import Value
from noria.envs.deepsearch.schema import KINDS, RELATIONS, Bound

#: What is asked where it is no attribute.
NAME_ASKED = "name"
_LETTERS = "ABCDEFGH"


@dataclass(frozen=True, slots=True)
class Rel:
    """`s` has a relation to `o`, in one of its wordings."""

    s: int
    relation: str
    o: int
    wording: int = 0


@dataclass(frozen=True, slots=True)
class Named:
    """`v` is the entity of this name."""

    v: int
    name: str


@dataclass(frozen=True, slots=True)
class Attr:
    """A value of `v` is, is below or is above `value`."""

    v: int
    attribute: str
    bound: Bound
    value: Value

    def holds(self, value: Value | None) -> bool:
        """Whether an entity with this value keeps the clue; one of which nothing is known does not."""
        if value is None or self.bound == "is":
            return value == self.value
        assert isinstance(value, int) and isinstance(self.value, int)
        return value < self.value if self.bound == "below" else value > self.value


@dataclass(frozen=True, slots=True)
class Same:
    """A date of `v` and one of `w` coincide."""

    v: int
    attribute: str
    w: int
    other: str


Clue = Rel | Named | Attr | Same
_TAGS: Mapping[str, type[Rel] | type[Named] | type[Attr] | type[Same]] = {
    "rel": Rel, "name": Named, "attr": Attr, "same": Same,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """`kinds` of the variables by number, the clues in the order of the question, what is asked of variable 0."""

    kinds: tuple[str, ...]
    clues: tuple[Clue, ...]
    asked: str

    def without(self, clue: Clue) -> Query:
        """The same question with one clue less."""
        return replace(self, clues=tuple(one for one in self.clues if one != clue))

    def swap(self, old: Clue, new: Sequence[Clue], kinds: Sequence[str] = ()) -> Query:
        """The same question with other clues in the place of one, and more variables."""
        clues: list[Clue] = []
        for one in self.clues:
            clues += new if one == old else [one]
        return Query((*self.kinds, *kinds), tuple(clues), self.asked)

    def names(self) -> dict[int, str]:
        """Variables that are named."""
        return {clue.v: clue.name for clue in self.clues if isinstance(clue, Named)}


def variables(clue: Clue) -> tuple[int, ...]:
    """The variables that a clue speaks of."""
    if isinstance(clue, Rel):
        return (clue.s, clue.o)
    return (clue.v, clue.w) if isinstance(clue, Same) else (clue.v,)


def edges(query: Query, v: int) -> list[tuple[Rel | Same, int]]:
    """The clues between `v` and another variable, with that variable."""
    found: list[tuple[Rel | Same, int]] = []
    for clue in query.clues:
        if isinstance(clue, Rel | Same) and v in variables(clue):
            first, second = variables(clue)
            found.append((clue, second if first == v else first))
    return found


def depths(query: Query) -> dict[int, int]:
    """How many clues lie between variable 0 and each other one that is connected to it."""
    found, front = {0: 0}, [0]
    while front:
        v = front.pop(0)
        for _, other in edges(query, v):
            if other not in found:
                found[other] = found[v] + 1
                front.append(other)
    return found


def encode(query: Query) -> dict[str, Any]:
    """Plain data for JSON."""
    tags = {kind: tag for tag, kind in _TAGS.items()}
    clues = [[tags[type(clue)], *asdict(clue).values()] for clue in query.clues]
    return {"kinds": list(query.kinds), "clues": clues, "asked": query.asked}


def decode(data: Mapping[str, Any]) -> Query:
    """What `encode` wrote."""
    clues = tuple(_TAGS[tag](*rest) for tag, *rest in data["clues"])
    return Query(tuple(data["kinds"]), clues, data["asked"])


def sentences(query: Query) -> list[tuple[Clue, str]]:
    """Each clue but the names with its sentence: `Firm A is run from town B.`"""
    say = namer(query)
    return [(clue, _sentence(query, clue, say)) for clue in query.clues if not isinstance(clue, Named)]


def question(query: Query) -> str:
    """The last sentence."""
    x = namer(query)(0)
    if query.asked == NAME_ASKED:
        return f"What is the name of {x}?"
    return KINDS[query.kinds[0]].attributes[query.asked].ask.format(x=x)


def prompt(query: Query) -> str:
    """The whole question."""
    return " ".join([*(text for _, text in sentences(query)), question(query)])


def namer(query: Query) -> Callable[[int], str]:
    """Words for a variable: its name, or its kind and a letter. Letters follow the order in the question."""
    names = query.names()
    order = [v for clue in query.clues for v in variables(clue) if v not in names]
    letters = dict(zip(dict.fromkeys([0, *order]), _LETTERS, strict=False))
    return lambda v: names.get(v) or f"{query.kinds[v]} {letters[v]}"


def _sentence(query: Query, clue: Clue, say: Callable[[int], str]) -> str:
    if isinstance(clue, Rel):
        text = RELATIONS[clue.relation].clues[clue.wording].format(s=say(clue.s), o=say(clue.o))
    elif isinstance(clue, Attr):
        words = KINDS[query.kinds[clue.v]].attributes[clue.attribute].clue[clue.bound]
        text = words.format(x=say(clue.v), v=clue.value)
    else:
        assert isinstance(clue, Same)
        first = KINDS[query.kinds[clue.v]].attributes[clue.attribute].in_year
        second = KINDS[query.kinds[clue.w]].attributes[clue.other].in_year
        text = f"{say(clue.v)} {first} in the year in which {say(clue.w)} {second}"
    return f"{text[0].upper()}{text[1:]}."
