"""A made-up country: its graph, its pages, and the tools over them, all from one seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

from noria.envs.deepsearch.bm25 import Index, Okapi
from noria.envs.deepsearch.corpus import Corpus, Sizes
from noria.envs.deepsearch.graph import Graph, make_graph
from noria.envs.deepsearch.outside import Bm25s
from noria.envs.deepsearch.pages import write_pages

EngineName = Literal["own", "bm25s"]
ENGINES: Mapping[str, Callable[[Sequence[str]], Index]] = {"own": Okapi, "bm25s": Bm25s}


@dataclass(frozen=True, slots=True)
class Place:
    """What a country is made from: its seed, its pages, the idle sentences of each, whether with unseen kinds."""

    seed: str
    pages: int
    noise: int
    unseen: bool

    def plain(self) -> dict[str, Any]:
        """Plain data for JSON; `Place(**data)` is the same place."""
        return asdict(self)


@dataclass(frozen=True)
class Country:
    """The graph behind the pages, and the pages behind the tools."""

    place: Place
    graph: Graph
    corpus: Corpus


# A round plays the tasks of a country many times over.
@lru_cache(maxsize=128)
def found_country(place: Place, engine: EngineName, sizes: Sizes) -> Country:
    """The country of a place. UserError: the search engine is not installed."""
    graph = make_graph(place.seed, place.pages, place.unseen)
    return Country(place, graph, Corpus(write_pages(graph, place.seed, place.noise), ENGINES[engine], sizes))
