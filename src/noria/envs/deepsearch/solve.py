"""Every assignment of entities to variables that keeps all clues: exhaustively, over the graph.

Two variables may stand for the same entity, so a question with one assignment is unique whichever way it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from noria.envs.deepsearch.clues import Attr, Clue, Named, Query, Rel, depths, variables
from noria.envs.deepsearch.graph import Graph

Assignment = dict[int, str]


def keeps(graph: Graph, clue: Clue, at: Mapping[int, str]) -> bool:
    """Whether an assignment of the clue's variables keeps it."""
    entities = graph.entities
    if isinstance(clue, Rel):
        return entities[at[clue.s]].links.get(clue.relation) == at[clue.o]
    if isinstance(clue, Named):
        return entities[at[clue.v]].name == clue.name
    if isinstance(clue, Attr):
        return clue.holds(entities[at[clue.v]].values.get(clue.attribute))
    value = entities[at[clue.v]].values.get(clue.attribute)
    return value is not None and value == entities[at[clue.w]].values.get(clue.other)


def assignments(graph: Graph, query: Query) -> Iterator[Assignment]:
    """All of them, in a fixed order. Only variables that some clue joins to variable 0 are assigned."""
    order = list(depths(query))
    due = [
        [clue for clue in query.clues if order[at] in (own := variables(clue)) and set(own) <= set(order[: at + 1])]
        for at in range(len(order))
    ]
    yield from _extend(graph, query, order, due, {})


def targets(graph: Graph, query: Query) -> set[str]:
    """Entities that variable 0 may be."""
    return {found[0] for found in assignments(graph, query)}


def several(graph: Graph, query: Query) -> bool:
    """Whether variable 0 may be two entities or more."""
    first: str | None = None
    for found in assignments(graph, query):
        if first is None:
            first = found[0]
        elif found[0] != first:
            return True
    return False


def _extend(
    graph: Graph, query: Query, order: Sequence[int], due: Sequence[Sequence[Clue]], at: Assignment
) -> Iterator[Assignment]:
    if len(at) == len(order):
        yield dict(at)
        return
    v, clues = order[len(at)], due[len(at)]
    for id_ in _domain(graph, query.kinds[v], v, clues, at):
        at[v] = id_
        if graph.entities[id_].kind == query.kinds[v] and all(keeps(graph, clue, at) for clue in clues):
            yield from _extend(graph, query, order, due, at)
        del at[v]


def _domain(graph: Graph, kind: str, v: int, clues: Sequence[Clue], at: Mapping[int, str]) -> Sequence[str]:
    """Entities that `v` may be as far as one relation to an assigned variable tells."""
    for clue in clues:
        if isinstance(clue, Rel) and clue.s != clue.o:
            if clue.o == v and clue.s in at:
                return (graph.entities[at[clue.s]].links[clue.relation],)
            if clue.s == v and clue.o in at:
                return graph.subjects.get((clue.relation, at[clue.o]), ())
    return graph.by_kind.get(kind, ())
