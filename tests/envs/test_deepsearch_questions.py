"""Questions: the exhaustive check against a naive one, rewriting, joined chains, and what is refused."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from itertools import islice, product

import pytest

from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.deepsearch import Config, build, clues, joins, rewrite, shapes, solve
from noria.envs.deepsearch.admission import SPLITS, Space, Tally, answers, guess_rate, stated, stream
from noria.envs.deepsearch.bm25 import Okapi
from noria.envs.deepsearch.clues import NAME_ASKED, Attr, Named, Query, Rel, Same, decode, encode, prompt, sentences
from noria.envs.deepsearch.corpus import Corpus
from noria.envs.deepsearch.country import Country, Place, found_country
from noria.envs.deepsearch.graph import Graph
from noria.envs.deepsearch.pages import Page, write_pages
from noria.envs.deepsearch.schema import KINDS, RELATIONS

SPACE = Config().space()


@lru_cache
def drawn(n: int, split: Split = "train", seed: int = 0, **options: object) -> list[Task]:
    return list(islice(stream(Config(**options).space(), split, seed), n))  # type: ignore[arg-type]


def country_of(task: Task, space: Space = SPACE) -> Country:
    return found_country(Place(**task.data["place"]), space.engine, space.sizes)


def naive(graph: Graph, query: Query) -> set[tuple[str, ...]]:
    """Every combination of entities of the right kinds, tried on every clue by itself."""

    def holds(clue: clues.Clue, at: tuple[str, ...]) -> bool:
        one = graph.entities
        if isinstance(clue, Rel):
            return (clue.relation, at[clue.o]) in one[at[clue.s]].links.items()
        if isinstance(clue, Named):
            return one[at[clue.v]].name == clue.name
        if isinstance(clue, Same):
            return one[at[clue.v]].values[clue.attribute] == one[at[clue.w]].values[clue.other]
        value = one[at[clue.v]].values[clue.attribute]
        if clue.bound == "is":
            return value == clue.value
        return value < clue.value if clue.bound == "below" else value > clue.value  # type: ignore[operator]

    pools = [graph.by_kind[kind] for kind in query.kinds]
    return {at for at in product(*pools) if all(holds(clue, at) for clue in query.clues)}


def test_assignments_are_those_of_a_naive_enumeration() -> None:
    checked = 0
    for task in drawn(12, pages=27, max_guess=0.4) + drawn(4, "unseen", pages=40, max_guess=0.4):
        graph, query = country_of(task).graph, decode(task.data["query"])
        if len(query.kinds) > 5:
            continue
        looser = [query.without(clue) for clue in query.clues if isinstance(clue, Attr | Named)]
        for each in (query, *looser):
            found = {tuple(one[v] for v in range(len(query.kinds))) for one in solve.assignments(graph, each)}
            assert found == naive(graph, each)
            checked += 1
        assert naive(graph, query) == {tuple(task.data["evidence"])}
    assert checked >= 25


@pytest.mark.parametrize("split", SPLITS)
def test_every_task_is_correct_unique_and_not_searchable(split: Split) -> None:
    for task in drawn(16, split):
        country, query = country_of(task), decode(task.data["query"])
        graph, corpus = country.graph, country.corpus
        assert solve.targets(graph, query) == {task.data["target"]}
        target = graph.entities[task.data["target"]]
        assert task.data["answers"] == answers(target, query.asked)
        assert stated(corpus, query, dict(enumerate(task.data["evidence"])))
        # What one search finds first, with a clue's words or with all of them, is not the page.
        for text in (task.prompt, *(text for _, text in sentences(query))):
            assert corpus.rank(text, 1) != [target.id]
        # Every clue is needed, but the names that end a chain.
        for clue in query.clues:
            if isinstance(clue, Attr):
                assert len(list(solve.assignments(graph, query.without(clue)))) > 1
            elif not isinstance(clue, Named):
                assert len(solve.targets(graph, query.without(clue))) > 1
        assert guess_rate(graph, target.id, query.asked) == pytest.approx(task.data["guess"], abs=1e-4)
        assert task.data["guess"] <= 0.2
        assert 2 <= task.data["hops"] <= 5
        assert not any(f" {answer} " in f" {task.prompt.rstrip('.?')} " for answer in task.data["answers"])


def test_shapes_are_what_they_are_called() -> None:
    for shape in ("chain", "split", "join"):
        for task in drawn(4, shapes=(shape,), described=0.0):
            query = decode(task.data["query"])
            assert task.data["shape"] == shape
            ends = [len(clues.edges(query, v)) for v in range(1, len(query.kinds))].count(1)
            root = len(clues.edges(query, 0))
            assert any(isinstance(clue, Same) for clue in query.clues) == (shape == "join")
            if shape == "chain":
                assert ends == 1 and root == 1
            elif shape == "split":
                assert ends == 2
            else:
                assert ends == 2 and root == 2


def test_only_the_intersection_of_two_chains_answers() -> None:
    for task in drawn(6, shapes=("join",)):
        graph, query = country_of(task).graph, decode(task.data["query"])
        both = joins.sides(query)
        assert both is not None
        first, second = (solve.targets(graph, side) for side in both)
        assert len(first) > 1 and len(second) > 1
        assert task.data["target"] in first & second
        assert set(both[0].clues) | set(both[1].clues) == set(query.clues)
        seam = next(clue for clue in query.clues if isinstance(clue, Same))
        assert query.kinds[seam.v] != query.kinds[seam.w]
        assert KINDS[query.kinds[seam.v]].attributes[seam.attribute].is_year


def test_sides_of_a_question_worked_out_by_hand() -> None:
    seam = Same(0, "started", 1, "born")
    near = [Rel(0, "seat", 2), Named(2, "Velm"), Attr(0, "staff", "above", 50)]
    far = [Rel(1, "birthplace", 3), Rel(3, "bank", 4), Named(4, "Bann")]
    query = Query(("firm", "person", "town", "town", "river"), (*near, seam, *far), NAME_ASKED)
    both = joins.sides(query)
    assert both is not None
    assert set(both[0].clues) == {*near, *far} and set(both[1].clues) == {seam, *far}
    assert clues.depths(both[0]) == {0: 0, 2: 1}
    assert joins.sides(query.without(seam)) is None
    assert prompt(query) == (
        "The seat of firm A is Velm. Firm A employs more than 50 hands. Firm A was started in the year in which person "
        "B was born. The birthplace of person B is town C. Town C lies on Bann. What is the name of firm A?"
    )
    assert decode(json.loads(json.dumps(encode(query)))) == query


def test_a_clue_that_one_search_answers_is_rewritten() -> None:
    rewritten = 0
    country = found_country(Place("rewrite", 60, 2, False), SPACE.engine, SPACE.sizes)
    graph, corpus = country.graph, country.corpus
    for id_ in graph.by_kind["book"]:
        book = graph.entities[id_]
        author, town = book.links["author"], graph.entities[book.links["author"]].links["birthplace"]
        links = (Rel(0, "author", 1), Rel(1, "birthplace", 2), Named(2, graph.entities[town].name))
        exact = Attr(0, "printed", "is", book.values["printed"])
        query, gold = Query(("book", "person", "town"), (*links, exact), "pages"), {0: id_, 1: author, 2: town}
        if rewrite.searchable(corpus, id_, query, 1) != exact:
            continue
        soft, times = rewrite.soften(graph, corpus, query, gold, 1, random.Random(id_))
        if soft is None:
            continue
        rewritten += 1
        assert times >= 1 and exact not in soft.clues and not rewrite.searchable(corpus, id_, soft, 1)
        assert rewrite.is_unique(graph, soft) and solve.targets(graph, soft) == {id_}
        assert all(solve.keeps(graph, clue, gold) for clue in soft.clues)
    assert rewritten >= 3


def test_a_name_gives_way_to_a_description() -> None:
    graph = found_country(Place("describe", 60, 2, False), SPACE.engine, SPACE.sizes).graph
    school = graph.entities[graph.by_kind["school"][0]]
    town = graph.entities[school.links["site"]]
    name = Named(1, town.name)
    query, gold = Query(("school", "town"), (Rel(0, "site", 1), name), "pupils"), {0: school.id, 1: town.id}
    deeper = rewrite.describe(graph, query, dict(gold), name, random.Random(0), deeper=True)
    river = graph.entities[town.links["bank"]].name
    assert deeper == Query(
        ("school", "town", "river"), (Rel(0, "site", 1), Rel(1, "bank", 2), Named(2, river)), "pupils"
    )
    vague = rewrite.describe(graph, query, dict(gold), name, random.Random(0), deeper=False)
    assert vague is not None and vague.kinds == query.kinds
    (clue,) = (clue for clue in vague.clues if isinstance(clue, Attr))
    assert clue.v == 1 and clue.bound in ("below", "above") and clue.holds(town.values[clue.attribute])


def test_values_are_bounded_by_round_numbers_that_hold() -> None:
    for task in drawn(16):
        graph, query = country_of(task).graph, decode(task.data["query"])
        for clue in query.clues:
            if isinstance(clue, Attr):
                assert clue.holds(graph.entities[task.data["evidence"][clue.v]].values[clue.attribute])
                assert (clue.v, clue.attribute) != (0, query.asked)
                if isinstance(clue.value, int) and clue.bound != "is":
                    assert clue.value % 5 == 0


def test_what_can_be_guessed_or_is_impossible_is_refused() -> None:
    tally = Tally()
    few = list(islice(stream(Config(max_guess=0.1, names=0.0).space(), "train", 0, tally), 6))
    assert tally.refused["guessable"] > 0 and all(task.data["guess"] <= 0.1 for task in few)
    # A fifth of all wares or trades is shared by too many.
    assert not any(decode(task.data["query"]).asked in ("job", "ware") for task in few)
    with pytest.raises(UserError, match=r"options of deepsearch must admit questions: got none in 60 countries"):
        next(stream(Config(max_guess=0.01, pages=27, questions=1).space(), "train", 0))
    with pytest.raises(UserError, match="split must be one of train, heldout, unseen: got 'dev'"):
        next(stream(SPACE, "dev", 0))  # type: ignore[arg-type]


def test_a_question_that_takes_an_expert_too_long_is_refused() -> None:
    tally = Tally()
    config = Config(max_turns=7, shapes=("chain",), hops=(2, 2))
    world = build(config, None)
    for task in islice(stream(config.space(), "train", 0, tally), 3):
        for expert in world.experts:
            assert len(world.played(task, expert, 0)) <= 7
    assert tally.refused["unsolved"] > 0


def test_a_tally_adds_up() -> None:
    tally = Tally()
    list(islice(stream(Config(questions=2).space(), "train", 5, tally), 10))
    assert tally.drawn == tally.admitted + tally.refused.total() and tally.admitted == 10
    assert {"direct", "redundant", "no path"} <= set(tally.refused)


def test_what_a_page_does_not_say_cannot_be_asked() -> None:
    task = drawn(1)[0]
    country, query = country_of(task), decode(task.data["query"])
    gold = dict(enumerate(task.data["evidence"]))
    pages = write_pages(country.graph, country.place.seed, country.place.noise)
    bare = [Page(p.id, p.title, p.kind, f"{p.title} is a {p.kind}.") if p.id == gold[0] else p for p in pages]
    assert stated(Corpus(pages, Okapi, SPACE.sizes), query, gold)
    assert not stated(Corpus(bare, Okapi, SPACE.sizes), query, gold)


def test_a_dag_leads_one_layer_further_with_every_link() -> None:
    graph = found_country(Place("dag", 60, 2, False), SPACE.engine, SPACE.sizes).graph
    for seed in range(5):
        rng = random.Random(seed)
        root = shapes.obscure(graph, rng)
        dag = shapes.make_dag(graph, root, 3, rng)
        layers, front = {root: 0}, [root]
        for layer in (1, 2, 3):
            front = sorted({step.target for id_ in front for step in dag[id_]})
            assert all(layers.setdefault(id_, layer) == layer for id_ in front)
        for id_, steps in dag.items():
            for step in steps:
                s, o = (id_, step.target) if step.forward else (step.target, id_)
                assert graph.entities[s].links[step.relation] == o
                assert RELATIONS[step.relation].subject == graph.entities[s].kind
