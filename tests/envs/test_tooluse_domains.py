"""Domains of `tooluse`: sampled, typed, emitted, checked; the emission against the specification played directly."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from noria.core.errors import UserError
from noria.envs.tooluse.backend import backend_of
from noria.envs.tooluse.emit import source_of
from noria.envs.tooluse.instances import draw_state
from noria.envs.tooluse.probes import malformed, missing, probe
from noria.envs.tooluse.rules import Refused, copy_of, faults_of, line_of, play
from noria.envs.tooluse.sample import draw_domain
from noria.envs.tooluse.search import Space
from noria.envs.tooluse.spec import Check, Domain, Field, Limit, Operation, Param, State, Table, signature
from noria.envs.tooluse.static import faults_in_source
from noria.envs.tooluse.terms import BadTerm, Cell, Const, Count, New, Sum, comparison_of, effect_of, sum_of
from noria.envs.tooluse.themes import LIFECYCLES, VERBS, kinds_by_verb, settings
from noria.envs.tooluse.typing_rules import faults_in

BOOK, SHELF = Param("book", "id", "books"), Param("shelf", "id", "shelves")
LIBRARY = Domain(
    "small",
    "small library",
    (
        Table(
            "books", "book", "B",
            (Field("state", "enum", ("in", "out")), Field("shelf", "ref", table="shelves", optional=True)),
        ),
        Table("shelves", "shelf", "S", (Field("room", "int", low=1, high=4), Field("dust", "int", low=0, high=9))),
        Table("loans", "loan", "L", (Field("book", "ref", table="books"), Field("days", "int", low=1, high=9)), True),
    ),
    (
        Operation("list_books", "list", "all books", "books"),
        Operation("get_book", "get", "one book", "books", (BOOK,)),
        Operation("find_books", "find", "ids", "books", (Param("state", "enum", values=("in", "out")),)),
        Operation("count_books", "count", "number", "books", (SHELF,)),
        Operation(
            "put_book", "place", "into a shelf", "books", (BOOK, SHELF),
            (Check("book.state == 'in'", "{book} is {book.state}, must be in"),
             Check("count(books: shelf=shelf) < shelf.room", "{shelf} is full, room {shelf.room}")),
            ("book.shelf = shelf",),
        ),
        Operation(
            "lend_book", "create", "to somebody", "books",
            (BOOK, Param("days", "int", low=1, high=9, measures="loans.days")),
            (Check("book.state == 'in'", "{book} is {book.state}, must be in"),
             Check("days <= book.shelf.room", "at most {book.shelf.room} days")),
            ("book.state = 'out'", "book.shelf.dust = book.shelf.dust + days", "new loans: book=book, days=days"),
        ),
        Operation("return_book", "step", "back", "books", (BOOK,),
                  (Check("book.state == 'out'", "{book} is {book.state}, must be out"),), ("book.state = 'in'",)),
        *(Operation(f"list_more{n}", "list", "all", "shelves") for n in range(3)),
    ),
    (Limit("books", "shelf", "shelves", "room"),),
)  # fmt: skip
START: State = {
    "books": {"B1": {"state": "in", "shelf": "S1"}, "B2": {"state": "out", "shelf": ""}},
    "shelves": {"S1": {"room": 2, "dust": 4}, "S2": {"room": 1, "dust": 0}},
    "loans": {},
}


@pytest.fixture(scope="module")
def sound() -> list[Domain]:
    """The first sound domains of a seed."""
    drawn = (draw_domain(7, number) for number in range(60))
    return [domain for domain in drawn if not faults_in(domain)][:30]


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("list_books", {}, "B1 state in shelf S1; B2 state out shelf -"),
        ("get_book", {"book": "B2"}, "B2 state out shelf -"),
        ("find_books", {"state": "out"}, "B2"),
        ("count_books", {"shelf": "S2"}, "0"),
        ("put_book", {"book": "B1", "shelf": "S2"}, "ok B1 shelf S2"),
        ("put_book", {"book": "B2", "shelf": "S2"}, "error: B2 is out, must be in"),
        ("lend_book", {"book": "B1", "days": "2"}, "ok B1 state out, S1 dust 6, L1 book B1 days 2"),
        ("lend_book", {"book": "B1", "days": "3"}, "error: at most 2 days"),
        ("lend_book", {"book": "B1", "days": "10"}, "error: days must be a whole number 1 to 9, got '10'"),
        ("lend_book", {"book": "B9", "days": "1"}, "error: no book B9"),
        ("lend_book", {"book": "S1", "days": "1"}, "error: book must be an id like B1, got 'S1'"),
        ("lend_book", {"book": "B1"}, "error: lend_book takes book, days"),
        ("find_books", {"state": "gone"}, "error: state must be one of in, out, got 'gone'"),
        ("eval", {}, "error: no tool 'eval'"),
    ],
)
def test_the_emitted_backend_answers_as_worked_out_by_hand(name: str, args: dict[str, str], says: str) -> None:
    state = copy_of(START)
    assert backend_of(LIBRARY).call(state, name, args) == says
    assert (state == START) == (not says.startswith("ok"))


def test_the_small_domain_is_sound_and_its_invariants_are_told() -> None:
    assert faults_in(LIBRARY) == []
    assert faults_in_source(source_of(LIBRARY), [op.name for op in LIBRARY.operations]) == []
    broken = copy_of(START)
    broken["books"]["B2"] = {"state": "lost", "shelf": "S1"}
    broken["books"]["B3"] = {"state": "in", "shelf": "S1"}
    broken["shelves"]["S2"]["room"] = 5
    wrong = ["B2 state lost", "S2 room 5", "S1 room 3"]
    assert faults_of(LIBRARY, broken) == wrong == backend_of(LIBRARY).validate(broken)
    assert faults_of(LIBRARY, START) == [] == backend_of(LIBRARY).validate(START)


def test_domains_repeat_and_differ(sound: list[Domain]) -> None:
    again = draw_domain.__wrapped__(7, 3)
    assert again is not draw_domain(7, 3)
    assert (again.schema, source_of(again)) == (draw_domain(7, 3).schema, source_of(draw_domain(7, 3)))
    assert draw_domain(8, 3).schema != again.schema
    assert len({domain.schema for domain in sound}) == len({domain.shape for domain in sound}) == 30
    assert all(10 <= len(domain.operations) <= 30 for domain in sound)
    names = [signature(op) for domain in sound for op in domain.operations]
    assert len(set(names)) > 0.95 * len(names)


def test_verbs_tell_the_kind_of_a_tool(sound: list[Domain]) -> None:
    words = [verb for verbs in VERBS.values() for verb in verbs]
    words += [verb for cycle in LIFECYCLES for _, _, verb in cycle.steps]
    assert len(words) == len(set(words))
    for domain in sound:
        for op in domain.operations:
            assert kinds_by_verb()[op.name.split("_")[0]] == op.kind
    assert len(settings()) >= 40 and all(setting.goods and len(setting.things) >= 3 for setting in settings())


def test_emission_agrees_with_the_specification_on_random_calls(sound: list[Domain]) -> None:
    for domain in sound[:10]:
        rng, backend, seen = random.Random(domain.name), backend_of(domain), 0
        numbers = {p.measures: (p.low, 3, 12, 60, p.high) for op in domain.writes for p in op.params if p.measures}
        state = draw_state(domain, rng, 3)
        assert state is not None and faults_of(domain, state) == []
        for _ in range(250):
            move = Space(domain, state, numbers).random_move(state, rng, rng.choice(domain.operations))
            if move is None:
                continue
            mine, theirs = copy_of(state), copy_of(state)
            try:
                says = play(domain, mine, move.name, dict(move.args))
                seen += 1
            except Refused as refusal:
                says = f"error: {refusal}"
            said = backend.call(theirs, move.name, move.texts)
            if "must be a whole number" not in said:
                assert (said, theirs) == (says, mine), move
            assert not said.startswith("error:") or theirs == state
            assert backend.validate(theirs) == []
            state = theirs
        assert seen > 50


def test_malformed_calls_are_refused_and_change_nothing(sound: list[Domain]) -> None:
    for domain in sound[:5]:
        state = draw_state(domain, random.Random(0), 3)
        assert state is not None
        before, calls = copy_of(state), list(malformed(domain, state))
        assert len(calls) > 3 * len(domain.writes)
        for name, args in calls:
            assert backend_of(domain).call(state, name, args).startswith("error: "), (name, args)
        assert state == before


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"checks": (Check("book.state == 'lost'", "no"),)}, "text, expected one of in|out"),
        ({"checks": (Check("book.state <= 'in'", "no"),)}, "<= compares one of in|out"),
        ({"checks": (Check("book.colour == 'in'", "no"),)}, "books has no colour"),
        ({"checks": (Check("member.state == 'in'", "no"),)}, "no row member"),
        ({"checks": (Check("book.shelf.room == shelf", "no"),)}, "id of shelves, expected int"),
        ({"effects": ("book.shelf = book",)}, "id of books, expected id of shelves"),
        ({"effects": ("book.state = shelf.room + shelf.dust",)}, "int, expected one of in|out"),
        ({"effects": ("new loans: book=book",)}, "needs every field"),
        ({"effects": ("new shelves: room=1, dust=1",)}, "shelves gets no rows"),
        ({"effects": ("shelf = book.shelf",)}, "not an effect"),
        ({"checks": (Check("__import__('os') == 1", "no"),)}, "not a term"),
        ({"name": "class"}, "is no name"),
        ({"doc": 'x"""\nimport os\n"""'}, "must be words without quotes"),
        ({"checks": (Check("book.state == 'in'", 'x" + str(1) + "'),)}, "must be words without quotes"),
        ({"checks": (Check("book.state == 'in'", "{book.__class__}"),)}, "books has no __class__"),
        ({"name": "get_book"}, "two have one tool"),
        ({"params": (BOOK, Param("shelf", "id", "racks"))}, "parameter shelf is of no table"),
    ],
)
def test_a_specification_that_means_nothing_is_refused(change: dict[str, object], fault: str) -> None:
    operations = [replace(op, **change) if op.name == "put_book" else op for op in LIBRARY.operations]  # type: ignore[arg-type]
    found = faults_in(replace(LIBRARY, operations=tuple(operations)))
    assert any(fault in line for line in found), found


def test_too_few_and_too_many_tools_are_refused() -> None:
    assert "9 tools, expected 10 to 30" in faults_in(replace(LIBRARY, operations=LIBRARY.operations[:9]))


@pytest.mark.parametrize(
    "line",
    [
        "import os", "from typing import cast", "open('x')", "eval('1')", "().__class__", "x = __builtins__",
        "while True:\n    pass", "exec('1')", "y = lambda: 0", "with a:\n    pass", "def f(x) -> int:\n    return 1",
        "def put_up(data: State) -> str:\n    \"\"\"Dead.\"\"\"\n    return ''", "del TOOLS", "global x", "x = 1 if (",
    ],
)  # fmt: skip
def test_code_outside_the_allow_list_is_refused(line: str) -> None:
    tools = [op.name for op in LIBRARY.operations]
    assert faults_in_source(f"{source_of(LIBRARY)}\n\n{line}\n", tools) != []


def test_a_tool_out_of_the_registry_is_told() -> None:
    text = source_of(LIBRARY).replace("    'put_book': put_book,\n", "    'put_book': lend_book,\n")
    found = faults_in_source(text, [op.name for op in LIBRARY.operations])
    assert found == ["put_book is not in the registry", "put_book is defined and cannot be reached"]


def test_a_dead_tool_is_found_by_the_probes() -> None:
    never = Check("book.state == 'out'", "{book} is {book.state}")
    dead = [replace(op, checks=(*op.checks, never)) if op.name == "put_book" else op for op in LIBRARY.operations]
    domain = replace(LIBRARY, operations=tuple(dead))
    assert faults_in(domain) == []
    dead_tool, unsound = missing(domain, probe(domain, 0))
    assert dead_tool == "put_book never goes through"
    # Nothing keeps the dust of a shelf below its highest value.
    assert unsound.startswith("lend_book breaks an invariant: S") and " dust 1" in unsound
    assert missing(LIBRARY, probe(LIBRARY, 0))[0].startswith("lend_book breaks an invariant: ")


def test_the_language_is_parsed_as_written() -> None:
    count = Count("books", (("shelf", sum_of("shelf")), ("state", sum_of("'in'"))))
    assert comparison_of("count(books: shelf=shelf, state='in') < 3").left == Sum(((1, count),))
    assert sum_of("book.shelf.room - 2").terms == ((1, Cell("book", "shelf", "room")), (-1, Const(2)))
    assert effect_of("new loans: book=book") == New("loans", (("book", sum_of("book")),))
    for text in ("book.a.b.c == 1", "1", "a = ", "book.state = 'a b'"):
        with pytest.raises(BadTerm):
            comparison_of(text) if "==" in text or text == "1" else effect_of(text)


def test_lines_show_every_field() -> None:
    assert line_of(LIBRARY.table["shelves"], "S2", {"room": 1, "dust": 0}) == "S2 room 1 dust 0"


def test_code_that_may_not_run_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import noria.envs.tooluse.backend as module

    monkeypatch.setattr(module, "source_of", lambda domain: "import os")
    with pytest.raises(UserError, match="must emit allowed code: line 1: import of os is not allowed"):
        backend_of(replace(LIBRARY))
