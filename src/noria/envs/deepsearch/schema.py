"""What there is in a made-up country: kinds of things, what is known of them, how they are related, in which words.

Each fact has one sentence on a page (`said`) and other words in a question, so that a question need not repeat a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: How the value of an attribute is bounded in a clue.
Bound = Literal["is", "below", "above"]


@dataclass(frozen=True, slots=True)
class Attribute:
    """Something known of every entity of a kind: a number, or one of a few words.

    said    its sentence on a page; `{v}` is the value
    clue    the words of a clue for each bound; `{x}` is the entity, `{v}` the value
    ask     the question
    low, high   least and greatest number; both 0 where the values are `words`
    year    it is a date, which an attribute of another kind may coincide with; `in_year` says so ("was founded")
    unit    a word that may follow the number in an answer
    """

    said: str
    clue: Mapping[Bound, str]
    ask: str
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()
    in_year: str = ""
    unit: str = ""

    @property
    def is_year(self) -> bool:
        """Whether it is a date."""
        return bool(self.in_year)


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed link: every entity of kind `subject` has one `object`. `clues` begins with the words of the page."""

    subject: str
    object: str
    said: str
    clues: tuple[str, ...]
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of entity. `share` is its part of the pages; `noise` are sentences that answer nothing."""

    share: int
    attributes: Mapping[str, Attribute]
    noise: tuple[str, ...]
    unseen: bool = False


def _year(participle: str) -> Attribute:
    clue: Mapping[Bound, str] = {
        "is": f"{{x}} was {participle} in {{v}}",
        "below": f"{{x}} was {participle} before {{v}}",
        "above": f"{{x}} was {participle} after {{v}}",
    }
    said, ask = f"It was {participle} in {{v}}.", f"In which year was {{x}} {participle}?"
    return Attribute(said, clue, ask, *YEARS, in_year=f"was {participle}")


def _number(has: str, what: str, ask: str, low: int, high: int, unit: str = "") -> Attribute:
    clue: Mapping[Bound, str] = {
        "is": f"{{x}} {has} {{v}} {what}",
        "below": f"{{x}} {has} less than {{v}} {what}",
        "above": f"{{x}} {has} more than {{v}} {what}",
    }
    return Attribute(f"It {has} {{v}} {what}.", clue, ask, low, high, unit=unit or what.split()[0])


def _words(said: str, clue: str, ask: str, *words: str) -> Attribute:
    return Attribute(said, {"is": clue}, ask, words=words)


#: First and last year of the country's history; few enough that things coincide.
YEARS = (1851, 1899)

KINDS: Mapping[str, Kind] = {
    "person": Kind(
        14,
        {
            "born": _year("born"),
            "height": _number("measures", "cm in height", "How many cm in height is {x}?", 150, 199, "cm"),
            "job": _words(
                "By trade it is a {v}.", "{x} is a {v}", "What is the trade of {x}?",
                "painter", "singer", "farmer", "doctor", "baker",
            ),
        },
        ("It keeps {n} hens.", "A street bears its name since 19{n}.", "It speaks {n} words of French."),
    ),
    "town": Kind(
        9,
        {
            "founded": _year("founded"),
            "people": _number("counts", "hundred people", "How many hundred people live in {x}?", 20, 95, "hundred"),
        },
        ("It has {n} old gates.", "A fire broke out in 19{n}.", "Its fair lasts {n} days."),
    ),
    "river": Kind(
        5,
        {"length": _number("runs", "km to its mouth", "How many km long is {x}?", 110, 890, "km")},
        ("It froze in 19{n}.", "It feeds {n} mills."),
    ),
    "lake": Kind(
        3,
        {"depth": _number("is", "metres deep", "How many metres deep is {x}?", 11, 99, "metres")},
        ("It has {n} islands.", "It dried up in 19{n}."),
    ),
    "firm": Kind(
        10,
        {
            "started": _year("started"),
            "staff": _number("employs", "hands", "How many hands does {x} employ?", 21, 399),
            "ware": _words(
                "It deals in {v}.", "{x} sells {v}", "What does {x} deal in?", "glass", "salt", "wool", "paper", "soap"
            ),
        },
        ("It owns {n} carts.", "It moved house in 19{n}.", "It won {n} prizes."),
    ),
    "book": Kind(
        12,
        {
            "printed": _year("printed"),
            "pages": _number("fills", "pages", "How many pages does {x} fill?", 101, 699),
        },
        ("It was banned in 19{n}.", "It has {n} pictures.", "It costs {n} coins."),
    ),
    "school": Kind(
        7,
        {
            "opened": _year("opened"),
            "pupils": _number("teaches", "pupils", "How many pupils does {x} teach?", 31, 299),
        },
        ("It has {n} rooms.", "Its roof is from 19{n}."),
    ),
    "ship": Kind(
        9,
        {
            "launched": _year("launched"),
            "tons": _number("carries", "tons", "How many tons does {x} carry?", 101, 899),
        },
        ("It has {n} masts.", "It lost its anchor in 19{n}."),
        unseen=True,
    ),
    "bridge": Kind(
        7,
        {
            "raised": _year("raised"),
            "span": _number("spans", "metres", "How many metres does {x} span?", 21, 199),
        },
        ("It has {n} lamps.", "It was painted in 19{n}."),
        unseen=True,
    ),
}  # fmt: skip

RELATIONS: Mapping[str, Relation] = {
    "birthplace": Relation(
        "person", "town", "Its birthplace is {o}.", ("the birthplace of {s} is {o}", "{s} comes from {o}")
    ),
    "employer": Relation("person", "firm", "It works for {o}.", ("{s} works for {o}", "{s} earns a living at {o}")),
    "learned": Relation(
        "person", "school", "It learned at {o}.", ("{s} learned at {o}", "{s} is a former pupil of {o}")
    ),
    "bank": Relation("town", "river", "It lies on {o}.", ("{s} lies on {o}", "{o} flows past {s}")),
    "seat": Relation("firm", "town", "Its seat is {o}.", ("the seat of {s} is {o}", "{s} is run from {o}")),
    "starter": Relation("firm", "person", "Its starter is {o}.", ("the starter of {s} is {o}", "{o} set up {s}")),
    "author": Relation("book", "person", "Its author is {o}.", ("the author of {s} is {o}", "{o} wrote {s}")),
    "scene": Relation("book", "town", "Its scene is {o}.", ("the scene of {s} is {o}", "{s} tells of {o}")),
    "site": Relation("school", "town", "It stands in {o}.", ("{s} stands in {o}", "{s} is found in {o}")),
    "mouth": Relation("river", "lake", "It flows into {o}.", ("{s} flows into {o}", "{s} ends in {o}")),
    "yard": Relation("ship", "firm", "Its builder is {o}.", ("the builder of {s} is {o}", "{o} made {s}"), unseen=True),
    "captain": Relation(
        "ship", "person", "Its captain is {o}.", ("the captain of {s} is {o}", "{o} steers {s}"), unseen=True
    ),
    "crossing": Relation("bridge", "river", "It crosses {o}.", ("{s} crosses {o}", "{s} leads over {o}"), unseen=True),
    "landing": Relation("bridge", "town", "It begins in {o}.", ("{s} begins in {o}", "{s} starts at {o}"), unseen=True),
}  # fmt: skip
#: A link that answers nothing: to a namesake of the same kind.
MIXED_UP = "It is often mixed up with {o}."
#: The other name of an entity.
ALIAS = "It is also called {v}."
FIRST = "{t} is a {k}."


def kinds_of(unseen: bool) -> list[str]:
    """The kinds of a country; those of the split "unseen" have more."""
    return [name for name, kind in KINDS.items() if unseen or not kind.unseen]


def relations_of(unseen: bool) -> list[str]:
    """The relations of a country."""
    return [name for name, relation in RELATIONS.items() if unseen or not relation.unseen]
