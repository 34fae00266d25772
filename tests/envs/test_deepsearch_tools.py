"""Pages, the search engine, the two tools, the loader, and the comparison of answers."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import pytest

from noria.core.errors import PolicyError, UserError
from noria.envs.deepsearch.bm25 import K1, B, Okapi, words
from noria.envs.deepsearch.corpus import NOTHING, Corpus, Sizes
from noria.envs.deepsearch.folder import load_pages, load_questions
from noria.envs.deepsearch.grading import matches, normalise
from noria.envs.deepsearch.graph import make_graph
from noria.envs.deepsearch.outside import Bm25s
from noria.envs.deepsearch.pages import Page, read, said_of, write_pages
from noria.envs.deepsearch.schema import KINDS, RELATIONS, kinds_of, relations_of

SIZES = Sizes(hits=3, page_words=20, most_hits=7)


def country_texts(unseen: bool = False, noise: int = 2) -> list[str]:
    return [page.text for page in write_pages(make_graph("t", 60, unseen), "t", noise)]


def corpus(pages: list[Page]) -> Corpus:
    return Corpus(pages, Okapi, SIZES)


def naive_score(query: str, at: int, texts: list[str]) -> float:
    """The formula as it stands in books, one text and one word at a time."""
    split = [words(text) for text in texts]
    mean = sum(map(len, split)) / len(split)
    total = 0.0
    for word in words(query):
        holding = sum(word in one for one in split)
        times = Counter(split[at])[word]
        rarity = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
        total += rarity * times / (times + K1 * (1 - B + B * len(split[at]) / mean))
    return total


def test_scores_are_those_of_the_formula_and_a_number_worked_out_by_hand() -> None:
    texts = country_texts()
    index = Okapi(texts)
    for query in ("a person who lies on a river", "town town founded 1880", texts[3], "hens"):
        scores = index.scores(query)
        for at in range(len(texts)):
            assert scores.get(at, 0.0) == pytest.approx(naive_score(query, at, texts), abs=1e-12)
    # Two texts of two and four words, mean 3; "b" is in one: ln(1 + 1.5 / 1.5) * 1 / (1 + 1.5 * (0.25 + 0.75 * 4 / 3)).
    assert Okapi(["a a", "a b c d"]).scores("b") == {1: pytest.approx(math.log(2) / 2.875)}


def test_ranking_is_best_first_with_equals_in_order() -> None:
    index = Okapi(["x y", "x", "z", "x", ""])
    assert index.rank("X!", 9) == [1, 3, 0]
    assert index.rank("x", 1) == [1]
    assert index.rank("q", 9) == index.rank("", 9) == []
    assert Okapi([]).rank("x", 3) == []


def test_the_package_ranks_alike() -> None:
    pytest.importorskip("bm25s")
    rng = random.Random(0)
    texts = country_texts()
    own, theirs = Okapi(texts), Bm25s(texts)
    vocabulary = sorted({word for text in texts for word in words(text)})
    for _ in range(60):
        query = " ".join(rng.sample(vocabulary, rng.randint(1, 8)))
        scores = own.scores(query)
        # Its numbers have 32 bits: pages whose scores agree to four places may change places.
        assert [round(scores[at], 3) for at in theirs.rank(query, 20)] == pytest.approx(
            [round(scores[at], 3) for at in own.rank(query, 20)], abs=2e-3
        )
    assert theirs.rank("qqqq", 5) == []


@pytest.mark.parametrize("unseen", [False, True])
@pytest.mark.parametrize("noise", [0, 4])
def test_a_page_says_exactly_what_the_graph_knows(unseen: bool, noise: int) -> None:
    graph = make_graph("s", 60, unseen)
    for page in write_pages(graph, "s", noise):
        facts, entity = read(page.text), graph.entities[page.id]
        assert (facts.name, facts.kind, facts.alias) == (entity.name, entity.kind, entity.alias)
        assert facts.values == entity.values and facts.links == entity.links
        assert facts.mixed_up == (entity.mixed_up if noise else "")
        assert set(page.links) == {*entity.links.values(), *([entity.mixed_up] if noise else [])}
        assert all(facts.names[link] == graph.entities[link].name for link in page.links)
        assert all(said_of(entity, name) in page.text for name in entity.values)


def test_a_graph_is_typed_and_repeats_with_its_seed() -> None:
    for unseen in (False, True):
        graph = make_graph("g", 100, unseen)
        assert make_graph("g", 100, unseen) == graph != make_graph("h", 100, unseen)
        assert set(graph.by_kind) == set(kinds_of(unseen)) and 90 <= len(graph.entities) <= 110
        names = [entity.name for entity in graph.entities.values()]
        assert len(set(names)) == len(names)
        for entity in graph.entities.values():
            own = {name for name in relations_of(unseen) if RELATIONS[name].subject == entity.kind}
            assert set(entity.links) == own and set(entity.values) == set(KINDS[entity.kind].attributes)
            assert graph.entities[entity.mixed_up].kind == entity.kind and entity.mixed_up != entity.id
            for relation, target in entity.links.items():
                assert graph.entities[target].kind == RELATIONS[relation].object
                assert entity.id in graph.subjects[relation, target]


def test_search_lists_in_parts_up_to_a_limit() -> None:
    shown = corpus([Page(f"p{at}", f"Thing {at}", "town", "fish " * (at + 1)) for at in range(9)])
    first = shown.search("fish")
    assert first.endswith("; more: part 2") and first.count("town") == 3
    listed = [part.split()[0] for at in (1, 2, 3) for part in shown.search("fish", at).split("; ") if part[0] == "p"]
    assert listed == shown.rank("fish", 7) and len(listed) == 7
    assert "more" not in shown.search("fish", 3)
    assert shown.search("bird") == NOTHING
    assert shown.search("thing 4").startswith("p4 Thing 4, town; ")
    for args, message in (
        ({"query": "fish", "part": "4"}, "part must be at most 3: got 4"),
        ({"query": "fish", "part": "0"}, "part must be a number from 1: got '0'"),
        ({"query": "fish", "part": "²"}, "part must be a number from 1"),
        ({"query": "?!"}, "query must have words"),
        ({"query": " "}, "search needs query"),
        ({}, "search needs query"),
        ({"query": "a", "page": "p1"}, "search has no argument 'page'"),
    ):
        with pytest.raises(PolicyError, match=message.replace("?", r"\?")):
            shown.call("search", args)
    with pytest.raises(PolicyError, match="unknown tool 'look': use search, browse, answer"):
        shown.call("look", {})


def test_browse_shows_a_page_in_parts_that_make_it_up() -> None:
    text = " ".join(f"Word {'and so on ' * (at % 7)}ends {at}." for at in range(12)) + " " + "x" * 5 + " y" * 50
    shown = corpus([Page("a/b-1", "The Old Mill", "", text), Page("p2", "Other", "", "See The Old Mill [a/b-1].")])
    parts, more = [], True
    while more:
        part = shown.call("browse", {"page": "a/b-1", "part": str(len(parts) + 1)})
        body, more = part.partition(" (more: part ")[0], " (more: part " in part
        assert len(body.split()) <= SIZES.page_words
        parts.append(body)
    assert " ".join(parts) == text and len(parts) > 5
    for name in ("a/b-1", " the old MILL ", "The Old Mill [a/b-1]", "[a/b-1]"):
        assert shown.find(name) == "a/b-1"
    with pytest.raises(PolicyError, match="page must be an id or a title: got 'nowhere' - search for it first"):
        shown.call("browse", {"page": "nowhere"})
    with pytest.raises(PolicyError, match="part must be at most 1: got 2"):
        shown.call("browse", {"page": "p2", "part": "2"})


def test_a_folder_of_texts_becomes_linked_pages(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "mill.md").write_text(
        "# The Mill\nBy [the river](sub/river.md#top), see [[Lake X|a lake]], [w](http://a.b)."
    )
    (tmp_path / "sub" / "river.md").write_text("It drives [a mill](../mill.md) and ![p](p.png).")
    (tmp_path / "old_note.txt").write_text("Nothing about [[gone]].")
    (tmp_path / "more.jsonl").write_text(
        '{"id": "l1", "title": "Lake X", "kind": "lake", "text": "Deep.", "links": ["mill"]}\n\n'
    )
    pages = {page.id: page for page in load_pages(tmp_path)}
    assert list(pages) == ["l1", "mill", "old_note", "sub/river"]
    assert (
        pages["mill"].text.endswith("By the river [sub/river], see a lake [l1], w.")
        and pages["mill"].title == "The Mill"
    )
    assert pages["mill"].links == ("sub/river", "l1")
    assert pages["sub/river"].text == "It drives a mill [mill] and ![p](p.png)."
    assert pages["l1"] == Page("l1", "Lake X", "lake", "Deep.\nSee also: The Mill [mill].", ("mill",))
    assert pages["old_note"] == Page("old_note", "old note", "", "Nothing about gone.")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "corpus must be a folder of .txt.*found no page in"),
        ({"a.pdf": "x"}, "found no page"),
        ({"a.txt": " \n"}, "corpus must have no empty page: got 'a.txt'"),
        ({"a.txt": "x", "a.md": "y"}, "corpus must have each page once: got 'a' in a.md and a.txt"),
        (
            {"c.jsonl": '{"id": "a", "text": "x"}\n{"id": '},
            "corpus must be JSON in each line: got .* in c.jsonl line 2",
        ),
        ({"c.jsonl": "[1]"}, "corpus must be an object in each line: got list in c.jsonl line 1"),
        ({"c.jsonl": '{"id": "a"}'}, "corpus must have a text 'text' in each line: got None in c.jsonl line 1"),
        ({"c.jsonl": '{"id": 3, "text": "x"}'}, "corpus must have a text 'id' in each line: got 3"),
        ({"c.jsonl": '{"id": "a", "text": "x", "url": "u"}'}, "corpus must have keys of .*got 'url' in c.jsonl line 1"),
        ({"c.jsonl": '{"id": "a", "text": "x", "links": "b"}'}, "corpus must have a list of texts as 'links': got 'b'"),
        ({"c.jsonl": '{"id": "a", "text": "x", "links": ["b"]}'}, "links must be ids of pages: got 'b' on page 'a'"),
    ],
)
def test_what_is_wrong_with_a_corpus_is_said(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        load_pages(tmp_path)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(UserError, match="corpus must be readable UTF-8: got .*a.txt"):
        load_pages(tmp_path)
    with pytest.raises(UserError, match="found no page in .*nowhere"):
        load_pages(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "questions must be a .jsonl file with at least one line"),
        ('{"question": "q"}', "questions must have a text 'answer' in each line: got None in q.jsonl line 1"),
        (
            '{"question": "q", "answer": "a", "evidence": ["z"]}',
            "evidence must be ids of pages: got 'z' in q.jsonl line 1",
        ),
        ('{"question": "q", "answer": "a", "split": "dev"}', "split must be train, heldout or unseen: got 'dev'"),
        ('{"question": "q", "answer": "a", "aliases": "b"}', "questions must have a list of texts as 'aliases'"),
        ('{"question": "q", "answer": "a", "hint": "b"}', "questions must have keys of .*got 'hint'"),
    ],
)
def test_what_is_wrong_with_questions_is_said(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "q.jsonl").write_text(line)
    with pytest.raises(UserError, match=message):
        load_questions(tmp_path / "q.jsonl", {"p": Page("p", "P", "", "x")})


@pytest.mark.parametrize(
    ("said", "answers", "unit", "right"),
    [
        ("1843", ["1843"], "", True),
        (" 1,843. ", ["1843"], "", True),
        ("１８４３", ["1843"], "", True),
        ("300 km", ["300"], "km", True),
        ("300 KM.", ["300"], "km", True),
        ("300 miles", ["300"], "km", False),
        ("km", ["300"], "km", False),
        ("3000", ["300"], "", False),
        ("-300", ["300"], "", False),
        ("30.0", ["300"], "", False),
        ("the Old  mill!", ["Old Mill"], "", True),
        ("Ada Brinn", ["Ada Brinn", "Brinn"], "", True),
        ("brinn", ["Ada Brinn", "Brinn"], "", True),
        ("Ada", ["Ada Brinn", "Brinn"], "", False),
        ("1843 or 1850", ["1843"], "", False),
        ("1843 1850", ["1843"], "", False),
        ("", [""], "", False),
        ("the", ["the"], "", False),
        ("STRASSE", ["Straße"], "", True),
    ],
)  # fmt: skip
def test_answers_match_in_content_not_in_spelling(said: str, answers: list[str], unit: str, right: bool) -> None:
    assert matches(said, answers, unit) is right


def test_normalising_twice_changes_nothing() -> None:
    rng = random.Random(1)
    for _ in range(300):
        text = "".join(rng.choice("aA the.,-'1234 éß\t—") for _ in range(12))
        assert normalise(normalise(text)) == normalise(text)
