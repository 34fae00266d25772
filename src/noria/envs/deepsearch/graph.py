"""The seeded knowledge graph that pages and questions are made from: typed entities, relations and attributes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from noria.envs.deepsearch.schema import KINDS, RELATIONS, Attribute, kinds_of, relations_of

Value = int | str

_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "z",
)
_VOWELS = ("a", "e", "i", "o", "u")
_CODAS = ("l", "ld", "m", "n", "nd", "r", "rn", "sk", "x", "nt", "lm", "rk")
_GIVEN = ("Ada", "Ben", "Cora", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jon", "Kim", "Leo", "Mia", "Ned")
#: No kind has fewer entities.
_FEWEST = 3


@dataclass(frozen=True, slots=True)
class Entity:
    """One thing. `links` maps a relation to the id of its object; `mixed_up` is the id of one of the same kind."""

    id: str
    kind: str
    name: str
    alias: str
    values: Mapping[str, Value]
    links: Mapping[str, str]
    mixed_up: str


@dataclass(frozen=True)
class Graph:
    """Entities by id, with the inverse of each relation."""

    entities: Mapping[str, Entity]
    by_kind: Mapping[str, tuple[str, ...]] = field(init=False)
    subjects: Mapping[tuple[str, str], tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        by_kind: dict[str, tuple[str, ...]] = {}
        subjects: dict[tuple[str, str], tuple[str, ...]] = {}
        for entity in self.entities.values():
            by_kind[entity.kind] = (*by_kind.get(entity.kind, ()), entity.id)
            for relation, target in entity.links.items():
                subjects[relation, target] = (*subjects.get((relation, target), ()), entity.id)
        object.__setattr__(self, "by_kind", by_kind)
        object.__setattr__(self, "subjects", subjects)


def make_graph(seed: str, size: int, unseen: bool) -> Graph:
    """A country of about `size` entities; a pure function of its arguments. `unseen` adds kinds and relations."""
    rng = random.Random(f"graph:{seed}")
    names = _Names(rng)
    kinds = kinds_of(unseen)
    total = sum(KINDS[kind].share for kind in kinds)
    counts = {kind: max(_FEWEST, round(size * KINDS[kind].share / total)) for kind in kinds}
    ids = [f"p{number}" for number in range(1, sum(counts.values()) + 1)]
    rng.shuffle(ids)
    members: dict[str, list[str]] = {}
    for kind, count in counts.items():
        members[kind], ids = ids[:count], ids[count:]
    relations = {name: RELATIONS[name] for name in relations_of(unseen)}
    entities: dict[str, Entity] = {}
    for kind, own in members.items():
        for at, id_ in enumerate(own):
            entities[id_] = Entity(
                id=id_,
                kind=kind,
                name=names.draw(person=kind == "person"),
                alias=names.draw(person=False) if rng.random() < 0.5 else "",
                values={name: _value(rng, attribute) for name, attribute in KINDS[kind].attributes.items()},
                links={name: rng.choice(members[r.object]) for name, r in relations.items() if r.subject == kind},
                mixed_up=own[at - 1],
            )
    return Graph({id_: entities[id_] for id_ in sorted(entities, key=lambda one: int(one[1:]))})


def _value(rng: random.Random, attribute: Attribute) -> Value:
    return rng.choice(attribute.words) if attribute.words else rng.randint(attribute.low, attribute.high)


class _Names:
    """Made-up names, none twice: one word each, two for people."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = set()

    def draw(self, *, person: bool) -> str:
        syllables = 2
        while True:
            parts = [self._rng.choice(_ONSETS) + self._rng.choice(_VOWELS) for _ in range(syllables)]
            word = ("".join(parts) + self._rng.choice(_CODAS)).capitalize()
            if word not in self._used:
                self._used.add(word)
                return f"{self._rng.choice(_GIVEN)} {word}" if person else word
            syllables = 3
