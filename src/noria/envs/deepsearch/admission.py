"""Questions are drawn from sub-graphs, and only those that are correct, unique and not easy become tasks.

    draw a shape ─► guessable? ─► describe, sharpen ─► ambiguous? ─► rewrite what is directly searchable ─► direct? ─►
    prune ─► one side enough? redundant? ─► leak? ─► unstated? ─►
    new? ─► unsolved by an expert? ─► task

Each refusal is counted by its reason. The countries of different splits differ, so nothing that was read in one
helps in another; those of "unseen" have kinds and relations that no other has, and each of its questions needs one.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from noria.bases.play import play
from noria.bases.world import check_split
from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.deepsearch import clues, joins, rewrite, shapes, solve
from noria.envs.deepsearch.clues import NAME_ASKED, Attr, Clue, Named, Query, Rel, Same
from noria.envs.deepsearch.corpus import TOOLS, Corpus, Sizes
from noria.envs.deepsearch.country import Country, EngineName, Place, found_country
from noria.envs.deepsearch.episode import SearchEpisode
from noria.envs.deepsearch.grading import normalise
from noria.envs.deepsearch.graph import Entity, Graph
from noria.envs.deepsearch.habits import EXPERTS, make_policy
from noria.envs.deepsearch.pages import Facts, read
from noria.envs.deepsearch.schema import KINDS, RELATIONS

NAME = "deepsearch"
SYSTEM = "Search the pages, read, then answer."
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
SHAPES: Mapping[str, Callable[[Graph, int, random.Random], shapes.Sketch | None]] = {
    "chain": shapes.chain, "split": shapes.split, "join": joins.join,
}  # fmt: skip
REFUSALS = (
    "no path", "seen relations", "guessable", "ambiguous", "direct", "one side", "redundant", "leak", "unstated",
    "unsolved", "twice",
)  # fmt: skip

#: Draws for one question of a country, and countries without any before the options count as impossible.
_DRAWS, _BARREN = 12, 60


@dataclass(frozen=True, slots=True)
class Space:
    """What tasks are drawn from; see the fields of `world.Config`."""

    pages: int
    noise: int
    questions: int
    hops: tuple[int, int]
    shapes: tuple[str, ...]
    described: float
    names: float
    max_guess: float
    first: int
    max_turns: int
    engine: EngineName
    sizes: Sizes


@dataclass(slots=True)
class Tally:
    """How many questions were drawn, admitted, refused by reason, and how many clues were rewritten."""

    drawn: int = 0
    admitted: int = 0
    rewritten: int = 0
    refused: Counter[str] = field(default_factory=Counter)


# Stages ask for the same tasks again.
@lru_cache(maxsize=16)
def drawn(space: Space, split: Split, n: int, seed: int) -> tuple[Task, ...]:
    """The first `n` tasks of `stream`."""
    return tuple(islice(stream(space, split, seed), n))


def stream(space: Space, split: Split, seed: int, tally: Tally | None = None) -> Iterator[Task]:
    """Endless distinct tasks of a split; a pure function of space, split and seed.

    Raises:
        UserError: unknown split, or options under which no question is admitted.
    """
    check_split(split, SPLITS)
    tally = tally if tally is not None else Tally()
    number, barren = 0, 0
    while True:
        place = Place(f"{split}:{seed}:{number}", space.pages, space.noise, split == "unseen")
        admitted = list(_questions(found_country(place, space.engine, space.sizes), space, split, tally))
        yield from admitted
        number, barren = number + 1, 0 if admitted else barren + 1
        if barren >= _BARREN:
            reasons = ", ".join(f"{reason} {count}" for reason, count in tally.refused.most_common())
            raise UserError(
                f"options of {NAME} must admit questions: got none in {barren} countries ({reasons}) - raise pages or "
                "max_guess, or lower hops"
            )


def _questions(country: Country, space: Space, split: Split, tally: Tally) -> Iterator[Task]:
    rng = random.Random(f"questions:{country.place.seed}")
    prompts: set[str] = set()
    shape, tried = rng.choice(space.shapes), 0
    for _ in range(_DRAWS * space.questions):
        if len(prompts) >= space.questions:
            return
        if tried == _DRAWS:  # a shape keeps its turn until it succeeds, or the easy ones would crowd out the others
            shape, tried = rng.choice(space.shapes), 0
        tally.drawn, tried = tally.drawn + 1, tried + 1
        draft, reason = compose(country, space, shape, rng)
        if draft is not None and clues.prompt(draft.query) in prompts:
            reason = "twice"
        task = _task(country, draft, split) if draft is not None and not reason else None
        if task is not None and not solvable(country, task, space.max_turns):
            task, reason = None, "unsolved"
        if task is None or draft is None:
            tally.refused[reason] += 1
            continue
        tally.admitted += 1
        tally.rewritten += draft.rewritten
        prompts.add(clues.prompt(draft.query))
        shape, tried = rng.choice(space.shapes), 0
        yield task


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with the entities of its variables and how often a clue was rewritten."""

    shape: str
    query: Query
    gold: Mapping[int, str]
    rewritten: int


def compose(country: Country, space: Space, shape: str, rng: random.Random) -> tuple[Draft | None, str]:
    """One question of a shape, or None and the reason of its refusal."""
    graph = country.graph
    sketch = SHAPES[shape](graph, rng.randint(*space.hops), rng)
    asked = _asked(sketch, space, rng) if sketch else None
    if sketch is None or asked is None:
        return None, "no path"
    rng.shuffle(sketch.clues)
    query = sketch.query(asked)
    if country.place.unseen and not any(isinstance(one, Rel) and RELATIONS[one.relation].unseen for one in query.clues):
        return None, "seen relations"
    gold = dict(enumerate(sketch.ids))
    if guess_rate(graph, gold[0], asked) > space.max_guess:
        return None, "guessable"
    for clue in query.clues:
        if isinstance(clue, Named) and rng.random() < space.described:
            query = rewrite.describe(graph, query, gold, clue, rng, deeper=False) or query
    if _has_spare_link(graph, query):  # what more clues could only make worse
        return None, "redundant"
    sharp = rewrite.sharpen(graph, query, gold, rng, exact=True)
    if sharp is None:
        return None, "ambiguous"
    soft, rewritten = rewrite.soften(graph, country.corpus, sharp, gold, space.first, rng)
    if soft is None:
        return None, "direct"
    draft = Draft(shape, rewrite.prune(graph, soft), gold, rewritten)
    return draft, fault(country, draft, space.first)


def fault(country: Country, draft: Draft, first: int) -> str:
    """Why a finished question may not become a task, "" where it may: every check again, on what will be asked."""
    graph, query, gold = country.graph, draft.query, draft.gold
    if not rewrite.is_unique(graph, query) or next(solve.assignments(graph, query)) != gold:
        return "ambiguous"
    if rewrite.searchable(country.corpus, gold[0], query, first):
        return "direct"
    if not joins.each_side_leaves_several(graph, query):
        return "one side"
    if _has_spare_link(graph, query):
        return "redundant"
    said = f" {normalise(clues.prompt(query))} "
    if any(f" {normalise(answer)} " in said for answer in answers(graph.entities[gold[0]], query.asked)):
        return "leak"
    return "" if stated(country.corpus, query, gold) else "unstated"


def _has_spare_link(graph: Graph, query: Query) -> bool:
    """Whether the first entity is known without some link."""
    links = [clue for clue in query.clues if isinstance(clue, Rel | Same)]
    return not all(solve.several(graph, query.without(clue)) for clue in links)


def solvable(country: Country, task: Task, most: int) -> bool:
    """Whether each expert finds the answer with the tools, in at most `most` messages."""
    for expert in EXPERTS:
        episode = SearchEpisode(task, country.corpus, grounded=False)
        play(episode, make_policy(task, expert, 0), most)
        if not episode.grade().solved:
            return False
    return True


def guess_rate(graph: Graph, target: str, asked: str) -> float:
    """The chance of somebody who answers for a random entity of the asked kind: the share that has this very answer."""
    if asked == NAME_ASKED:
        return 1 / len(graph.by_kind[graph.entities[target].kind])
    values = [graph.entities[id_].values[asked] for id_ in graph.by_kind[graph.entities[target].kind]]
    return values.count(graph.entities[target].values[asked]) / len(values)


def stated(corpus: Corpus, query: Query, gold: Mapping[int, str]) -> bool:
    """Whether the pages say every clue and the answer: read off their text, not off the graph behind them."""
    facts = {v: read(corpus.pages[id_].text) for v, id_ in gold.items()}
    known = query.asked == NAME_ASKED or query.asked in facts[0].values
    return known and all(_stated(clue, facts, gold) for clue in query.clues)


def _stated(clue: Clue, facts: Mapping[int, Facts], gold: Mapping[int, str]) -> bool:
    if isinstance(clue, Rel):
        return facts[clue.s].links.get(clue.relation) == gold[clue.o]
    if isinstance(clue, Named):
        return facts[clue.v].name == clue.name
    if isinstance(clue, Attr):
        return clue.holds(facts[clue.v].values.get(clue.attribute))
    value = facts[clue.v].values.get(clue.attribute)
    return value is not None and value == facts[clue.w].values.get(clue.other)


def answers(entity: Entity, asked: str) -> list[str]:
    """What is right, the first in full. A name may be the other one that its page gives, or a family name."""
    if asked != NAME_ASKED:
        return [str(entity.values[asked])]
    return list(dict.fromkeys(filter(None, (entity.name, entity.alias, entity.name.rpartition(" ")[2]))))


def _asked(sketch: shapes.Sketch, space: Space, rng: random.Random) -> str | None:
    """What to ask of the first entity: its name, or a value that no clue coincides with; None where there is none."""
    if rng.random() < space.names:
        return NAME_ASKED
    joined = {clue.attribute for clue in sketch.clues if isinstance(clue, Same)}
    free = [name for name in sketch.graph.entities[sketch.ids[0]].values if name not in joined]
    return rng.choice(free) if free else None


def _task(country: Country, draft: Draft, split: Split) -> Task:
    query, entity = draft.query, country.graph.entities[draft.gold[0]]
    unit = "" if query.asked == NAME_ASKED else KINDS[entity.kind].attributes[query.asked].unit
    data: dict[str, Any] = {
        "place": country.place.plain(),
        "query": clues.encode(query),
        "shape": draft.shape,
        "hops": max(clues.depths(query).values()),
        "answers": answers(entity, query.asked),
        "unit": unit,
        "target": entity.id,
        "evidence": [draft.gold[v] for v in sorted(draft.gold)],
        "guess": round(guess_rate(country.graph, entity.id, query.asked), 4),
        "rewritten": draft.rewritten,
    }
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    return Task(f"{NAME}-{split}-{digest[:10]}", NAME, SYSTEM, clues.prompt(query), TOOLS, data, split)
