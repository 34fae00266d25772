"""Pipeline II: two chains of clues about things of different kinds, joined where a date of both coincides."""

from __future__ import annotations

import random

from noria.envs.deepsearch.clues import NAME_ASKED, Query, Same, variables
from noria.envs.deepsearch.graph import Graph
from noria.envs.deepsearch.schema import KINDS
from noria.envs.deepsearch.shapes import Sketch, make_dag, obscure
from noria.envs.deepsearch.solve import several

#: Coincidences tried before one is drawn that joins two chains.
_TRIES = 8


def join(graph: Graph, hops: int, rng: random.Random) -> Sketch | None:
    """A chain from an obscure entity, the coincidence with another, and a chain from that one; None where none is met.

    The chain behind the coincidence ends `hops` links from the first entity, the coincidence counted as one.
    """
    for _ in range(_TRIES):
        root = obscure(graph, rng)
        pairs = _coincidences(graph, root)
        sketch = _joined(graph, root, rng.choice(pairs), hops, rng) if pairs else None
        if sketch is not None:
            return sketch
    return None


def _joined(graph: Graph, root: str, pair: tuple[str, str, str], hops: int, rng: random.Random) -> Sketch | None:
    """Both chains around a coincidence. Each must fit something else too, or the other would be of no use."""
    attribute, other, theirs = pair
    sketch = Sketch(graph, root)
    sketch.ids.append(other)
    sketch.clues.append(Same(0, attribute, 1, theirs))
    first = sketch.walk(make_dag(graph, root, hops, rng), 0, rng.randint(1, hops - 1), rng)
    if not first or not sketch.walk(make_dag(graph, other, hops, rng), 1, hops - 1, rng):
        return None
    return sketch if each_side_leaves_several(graph, sketch.query(NAME_ASKED)) else None


def _coincidences(graph: Graph, root: str) -> list[tuple[str, str, str]]:
    """(date of the root, an entity of another kind, its date) wherever two dates are equal."""
    own = {name: graph.entities[root].values[name] for name in _dates(graph, root)}
    return [
        (name, id_, theirs)
        for id_, entity in graph.entities.items()
        if entity.kind != graph.entities[root].kind
        for theirs in _dates(graph, id_)
        for name, value in own.items()
        if entity.values[theirs] == value
    ]


def _dates(graph: Graph, id_: str) -> list[str]:
    return [name for name, one in KINDS[graph.entities[id_].kind].attributes.items() if one.is_year]


def sides(query: Query) -> tuple[Query, Query] | None:
    """The question with only the first chain, and with only the second; None where nothing coincides."""
    seam = next((clue for clue in query.clues if isinstance(clue, Same)), None)
    if seam is None:
        return None
    first = query.without(seam)
    behind = _behind(query, seam)
    kept = tuple(clue for clue in query.clues if clue == seam or set(variables(clue)) <= behind)
    return first, Query(query.kinds, kept, query.asked)


def each_side_leaves_several(graph: Graph, query: Query) -> bool:
    """Whether either chain alone fits two entities or more, so that only the intersection answers."""
    both = sides(query)
    return both is None or all(several(graph, side) for side in both)


def _behind(query: Query, seam: Same) -> set[int]:
    """Variables on the far side of the coincidence."""
    found, grew = {seam.w}, True
    while grew:
        grew = False
        for clue in query.clues:
            own = set(variables(clue))
            if clue != seam and own & found and not own <= found:
                found |= own
                grew = True
    return found
