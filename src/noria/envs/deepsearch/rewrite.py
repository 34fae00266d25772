"""Clues made vaguer or sharper: unique but no more, and none from which one search finds what is asked.

sharpen   adds what is needed until one assignment is left
prune     takes away what is not needed
soften    rewrites clues that one search answers: other words, a range for a number, a description for a name
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from noria.envs.deepsearch.clues import Attr, Clue, Named, Query, Rel, prompt, sentences, variables
from noria.envs.deepsearch.corpus import Corpus
from noria.envs.deepsearch.graph import Graph, Value
from noria.envs.deepsearch.schema import KINDS, RELATIONS
from noria.envs.deepsearch.solve import Assignment, assignments

#: Clues about a value that a question may have at most.
_MOST_VALUES = 3
#: Assignments looked at to tell which clue parts them best.
_LOOKED_AT = 200
_MAX_REWRITES = 6
_MAX_VARIABLES = 8


def is_unique(graph: Graph, query: Query) -> bool:
    """Whether exactly one assignment is left."""
    return len(list(islice(assignments(graph, query), 2))) == 1


def sharpen(graph: Graph, query: Query, gold: Assignment, rng: random.Random, *, exact: bool) -> Query | None:
    """Add clues about values, each the one that leaves fewest assignments, until one is left; None where it fails.

    `exact` allows the value itself about variable 0; everything else is a range or a word.
    """
    while True:
        found = list(islice(assignments(graph, query), _LOOKED_AT))
        if len(found) == 1:
            return query
        if sum(isinstance(clue, Attr) for clue in query.clues) >= _MOST_VALUES:
            return None
        offers = list(_offers(graph, query, gold, rng, exact=exact))
        left = [sum(clue.holds(graph.entities[one[clue.v]].values[clue.attribute]) for one in found) for clue in offers]
        if not offers or min(left) == len(found):
            return None
        best = offers[left.index(min(left))]
        query = Query(query.kinds, (*query.clues, best), query.asked)


def _offers(graph: Graph, query: Query, gold: Assignment, rng: random.Random, *, exact: bool) -> Iterator[Attr]:
    """True clues about values that are not asked, not yet bounded and not what two chains are joined at."""
    taken = {(clue.v, clue.attribute) for clue in query.clues if not isinstance(clue, Rel | Named)}
    taken |= {(clue.w, clue.other) for clue in query.clues if not isinstance(clue, Rel | Named | Attr)}
    taken |= {(0, query.asked)}
    for v in sorted(gold, key=lambda _: rng.random()):
        if v in query.names():
            continue
        entity = graph.entities[gold[v]]
        for attribute, value in entity.values.items():
            if (v, attribute) not in taken:
                yield from _bounds(entity.kind, v, attribute, value, rng)
                if exact and v == 0 and isinstance(value, int):
                    yield Attr(v, attribute, "is", value)


def _bounds(kind: str, v: int, attribute: str, value: Value, rng: random.Random) -> list[Attr]:
    """A range on either side of a number at a round one, or a word."""
    if isinstance(value, str):
        return [Attr(v, attribute, "is", value)]
    high = KINDS[kind].attributes[attribute].high
    step = 5 if KINDS[kind].attributes[attribute].is_year else 10 if high < 200 else 50
    spare = step * rng.randint(0, 1)
    below, above = (value // step + 1) * step + spare, (value - 1) // step * step - spare
    return [Attr(v, attribute, "below", below), Attr(v, attribute, "above", above)]


def prune(graph: Graph, query: Query) -> Query:
    """Without clues about values that are not needed for one assignment."""
    for clue in query.clues:
        if isinstance(clue, Attr) and is_unique(graph, query.without(clue)):
            query = query.without(clue)
    return query


def searchable(corpus: Corpus, target: str, query: Query, first: int) -> Clue | str:
    """A clue that one search with its words answers: the page asked for is among the `first` found. "" where none is.

    The whole question is searched for last; then its text is what is returned.
    """
    for clue, text in sentences(query):
        if target in corpus.rank(text, first):
            return clue
    return "whole" if target in corpus.rank(prompt(query), first) else ""


def soften(
    graph: Graph, corpus: Corpus, query: Query, gold: Assignment, first: int, rng: random.Random
) -> tuple[Query | None, int]:
    """Rewrite until no search answers; the question, or None where that fails, and how often it was rewritten."""
    for done in range(_MAX_REWRITES):
        found = searchable(corpus, gold[0], query, first)
        if not found:
            return query, done
        rewritten = _vaguer(graph, query, gold, found, rng)
        if rewritten is None:
            return None, done
        sharp = sharpen(graph, rewritten, gold, rng, exact=False)
        if sharp is None:
            return None, done
        query = sharp
    return None, _MAX_REWRITES


def _vaguer(graph: Graph, query: Query, gold: Assignment, found: Clue | str, rng: random.Random) -> Query | None:
    """The question with one clue put more vaguely; None where there is nothing left to rewrite."""
    suspects: Sequence[Clue] = query.clues if isinstance(found, str) else [found]
    for clue in suspects:
        if isinstance(clue, Attr) and clue.bound == "is" and isinstance(clue.value, int):
            kind = query.kinds[clue.v]
            return query.swap(clue, [rng.choice(_bounds(kind, clue.v, clue.attribute, clue.value, rng))])
    for clue in suspects:
        if isinstance(clue, Rel) and clue.wording + 1 < len(RELATIONS[clue.relation].clues):
            return query.swap(clue, [replace(clue, wording=clue.wording + 1)])
    near = {v for clue in suspects for v in variables(clue)}
    for clue in query.clues:
        if (
            isinstance(clue, Named)
            and clue.v in near
            and (described := describe(graph, query, gold, clue, rng, deeper=rng.random() < 0.5))
        ):
            return described
    return None


def describe(
    graph: Graph, query: Query, gold: Assignment, name: Named, rng: random.Random, *, deeper: bool
) -> Query | None:
    """The question with a description in the place of a name: one of its values or, `deeper`, a named neighbour.

    `gold` gains the new variable. None where there is nothing to say.
    """
    entity = graph.entities[gold[name.v]]
    links = [(relation, target) for relation, target in entity.links.items() if target not in gold.values()]
    if deeper and links and len(query.kinds) < _MAX_VARIABLES:
        relation, target = rng.choice(links)
        new = len(query.kinds)
        gold[new] = target
        clues: list[Clue] = [Rel(name.v, relation, new), Named(new, graph.entities[target].name)]
        return query.swap(name, clues, [graph.entities[target].kind])
    vague = [_bounds(entity.kind, name.v, attribute, value, rng) for attribute, value in entity.values.items()]
    return query.swap(name, [rng.choice(vague[rng.randrange(len(vague))])]) if vague else None
