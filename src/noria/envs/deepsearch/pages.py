"""Entities as pages in simple English with links, and pages read back into facts.

A link reads `Velmar [p12]`: the words, then the page that it leads to. `read` knows nothing but a page's text; what it
finds is what a question may build on.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from noria.envs.deepsearch.graph import Entity, Graph, Value
from noria.envs.deepsearch.schema import ALIAS, FIRST, KINDS, MIXED_UP, RELATIONS

_WOMEN = frozenset(("Ada", "Cora", "Eva", "Gina", "Ida", "Kim", "Mia"))
_PRONOUNS: Mapping[str, tuple[str, str]] = {
    "It": ("She", "He"),
    "it": ("she", "he"),
    "Its": ("Her", "His"),
    "its": ("her", "his"),
}
_NEUTRAL = {person: neutral for neutral, both in _PRONOUNS.items() for person in both}
_NEUTER = re.compile(r"\b(?:It|it|Its|its)\b")
_GENDERED = re.compile(r"\b(?:She|she|He|he|Her|her|His|his)\b")
_SENTENCE = re.compile(r"(?<=[.?!])\s+")


@dataclass(frozen=True, slots=True)
class Page:
    """One document of a corpus. `links` are the pages that its text leads to, each once."""

    id: str
    title: str
    kind: str
    text: str
    links: tuple[str, ...] = ()


@dataclass(slots=True)
class Facts:
    """What a page says: values by attribute, the page at the end of each relation, other links."""

    name: str = ""
    kind: str = ""
    alias: str = ""
    values: dict[str, Value] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    mixed_up: str = ""
    #: Names by page, as the links say them.
    names: dict[str, str] = field(default_factory=dict)


def write_pages(graph: Graph, seed: str, noise: int) -> list[Page]:
    """A page for each entity in the order of the ids, with `noise` sentences that answer nothing, a link among them."""
    rng = random.Random(f"pages:{seed}")
    return [_write(graph, entity, rng, noise) for entity in graph.entities.values()]


def _write(graph: Graph, entity: Entity, rng: random.Random, noise: int) -> Page:
    kind = KINDS[entity.kind]
    sentences = [attribute.said.format(v=entity.values[name]) for name, attribute in kind.attributes.items()]
    sentences += [RELATIONS[name].said.format(o=_link(graph, target)) for name, target in entity.links.items()]
    if entity.alias:
        sentences.append(ALIAS.format(v=entity.alias))
    if noise:
        sentences.append(MIXED_UP.format(o=_link(graph, entity.mixed_up)))
        drawn = rng.sample(kind.noise, min(noise - 1, len(kind.noise)))
        sentences += [sentence.format(n=rng.randint(10, 39)) for sentence in drawn]
    rng.shuffle(sentences)
    text = " ".join([FIRST.format(t=entity.name, k=entity.kind), *(_gendered(one, entity) for one in sentences)])
    links = list(entity.links.values()) + ([entity.mixed_up] if noise else [])
    return Page(entity.id, entity.name, entity.kind, text, tuple(dict.fromkeys(links)))


def _link(graph: Graph, target: str) -> str:
    return f"{graph.entities[target].name} [{target}]"


def _gendered(sentence: str, entity: Entity) -> str:
    if entity.kind != "person":
        return sentence
    which = 0 if entity.name.split()[0] in _WOMEN else 1
    return _NEUTER.sub(lambda found: _PRONOUNS[found[0]][which], sentence)


def said_of(entity: Entity, attribute: str) -> str:
    """The sentence of its page that states an attribute."""
    return _gendered(KINDS[entity.kind].attributes[attribute].said.format(v=entity.values[attribute]), entity)


def read(text: str) -> Facts:
    """What a page or a part of one says, in the sentences of `schema`; everything else is passed over."""
    facts = Facts()
    for sentence in _SENTENCE.split(text.strip()):
        plain = _GENDERED.sub(lambda found: _NEUTRAL[found[0]], sentence)
        first = _FIRST.fullmatch(sentence)
        if first and not facts.name:
            facts.name, facts.kind = first["t"], first["k"]
        elif alias := _ALIAS.fullmatch(plain):
            facts.alias = alias["v"]
        elif mixed := _MIXED.fullmatch(plain):
            facts.mixed_up = mixed["id"]
            facts.names[mixed["id"]] = mixed["o"]
        else:
            _note(facts, plain)
    return facts


def _note(facts: Facts, sentence: str) -> None:
    """Take in a sentence about an attribute or a relation."""
    for name, pattern, number in _attributes():
        if found := pattern.fullmatch(sentence):
            facts.values[name] = int(found["v"]) if number else found["v"]
            return
    for name, pattern in _relations():
        if found := pattern.fullmatch(sentence):
            facts.links[name] = found["id"]
            facts.names[found["id"]] = found["o"]
            return


def _pattern(template: str, **groups: str) -> re.Pattern[str]:
    """The sentences that a template makes."""
    text = re.escape(template)
    for key, group in groups.items():
        text = text.replace(re.escape(f"{{{key}}}"), group)
    return re.compile(text)


_TO = r"(?P<o>[^\[\]]+) \[(?P<id>[^\[\]]+)\]"
_FIRST = _pattern(FIRST, t="(?P<t>.+)", k=f"(?P<k>{'|'.join(KINDS)})")
_ALIAS = _pattern(ALIAS, v="(?P<v>.+)")
_MIXED = _pattern(MIXED_UP, o=_TO)


@cache
def _attributes() -> tuple[tuple[str, re.Pattern[str], bool], ...]:
    return tuple(
        (name, _pattern(one.said, v="(?P<v>[a-z]+)" if one.words else "(?P<v>[0-9]+)"), not one.words)
        for kind in KINDS.values()
        for name, one in kind.attributes.items()
    )


@cache
def _relations() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, _pattern(one.said, o=_TO)) for name, one in RELATIONS.items())
