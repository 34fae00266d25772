"""Pipeline I: from an obscure entity breadth-first along links to a DAG, and chain and split sub-graphs of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from noria.envs.deepsearch.clues import Clue, Named, Query, Rel
from noria.envs.deepsearch.graph import Graph
from noria.envs.deepsearch.schema import RELATIONS

#: Links against their direction that are kept from one entity: a river has many towns.
_FAN_IN = 3
#: Entities of which the one that fewest pages link to is taken.
_OBSCURE_OF = 3


@dataclass(frozen=True, slots=True)
class Step:
    """A link of the DAG: from an entity of one layer to one of the next. `forward` is the direction of the relation."""

    relation: str
    forward: bool
    target: str


Dag = Mapping[str, tuple[Step, ...]]


def obscure(graph: Graph, rng: random.Random) -> str:
    """An entity that few pages link to."""
    pool = rng.sample(list(graph.entities), min(_OBSCURE_OF, len(graph.entities)))
    return min(pool, key=lambda id_: sum(len(graph.subjects.get((relation, id_), ())) for relation in RELATIONS))


def make_dag(graph: Graph, root: str, depth: int, rng: random.Random) -> Dag:
    """Breadth first to `depth` layers; every link leads one layer further, so there is no circle."""
    layer_of, front, dag = {root: 0}, [root], {}
    for layer in range(1, depth + 1):
        following: list[str] = []
        for id_ in front:
            steps = []
            for step in _steps(graph, id_, rng):
                if step.target not in layer_of:
                    layer_of[step.target] = layer
                    following.append(step.target)
                if layer_of[step.target] == layer:
                    steps.append(step)
            dag[id_] = tuple(steps)
        front = following
    return dag


def _steps(graph: Graph, id_: str, rng: random.Random) -> list[Step]:
    steps = [Step(relation, True, target) for relation, target in graph.entities[id_].links.items()]
    for relation, one in RELATIONS.items():
        if one.object == graph.entities[id_].kind and (subjects := graph.subjects.get((relation, id_))):
            kept = rng.sample(subjects, _FAN_IN) if len(subjects) > _FAN_IN else subjects
            steps += [Step(relation, False, subject) for subject in kept]
    return steps


class Sketch:
    """A question under way: entities as variables, and the clues that join them."""

    def __init__(self, graph: Graph, root: str) -> None:
        self.graph = graph
        self.ids = [root]
        self.clues: list[Clue] = []

    def walk(self, dag: Dag, start: int, hops: int, rng: random.Random) -> bool:
        """Add a path of `hops` links from variable `start`, its end named. False where the DAG has none."""
        at = start
        for _ in range(hops):
            steps = [step for step in dag.get(self.ids[at], ()) if step.target not in self.ids]
            if not steps:
                return False
            at = self.add(at, rng.choice(steps))
        self.clues.append(Named(at, self.graph.entities[self.ids[at]].name))
        return True

    def add(self, at: int, step: Step) -> int:
        """Add one link and the variable at its end; its number."""
        self.ids.append(step.target)
        new = len(self.ids) - 1
        self.clues.append(Rel(at, step.relation, new) if step.forward else Rel(new, step.relation, at))
        return new

    def query(self, asked: str) -> Query:
        """The question so far."""
        return Query(tuple(self.graph.entities[id_].kind for id_ in self.ids), tuple(self.clues), asked)


def chain(graph: Graph, hops: int, rng: random.Random) -> Sketch | None:
    """One path of `hops` links from an obscure entity."""
    root = obscure(graph, rng)
    sketch = Sketch(graph, root)
    return sketch if sketch.walk(make_dag(graph, root, hops, rng), 0, hops, rng) else None


def split(graph: Graph, hops: int, rng: random.Random) -> Sketch | None:
    """Two paths that part at the obscure entity or, if there is room, one link further; the longer has `hops` links."""
    root = obscure(graph, rng)
    dag, sketch = make_dag(graph, root, hops, rng), Sketch(graph, root)
    stem = 0
    if hops > 1 and rng.random() < 0.5:
        steps = dag.get(root, ())
        if not steps:
            return None
        stem = sketch.add(0, rng.choice(steps))
    left = hops - (1 if stem else 0)
    done = sketch.walk(dag, stem, left, rng) and sketch.walk(dag, stem, rng.randint(1, left), rng)
    return sketch if done else None
