"""Carriers survive JSON lines bit by bit."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core import types
from noria.core.codec import append_jsonl, dumps, from_json, read_json_lines, read_jsonl, to_json, write_jsonl
from noria.core.types import (
    Analysis,
    Branch,
    Hint,
    KeyAction,
    Message,
    Outcome,
    Pair,
    Sample,
    Score,
    Task,
    TaskLimits,
    TokenRecord,
    Tool,
    Trajectory,
    Turn,
    Verdict,
)

TEXT = st.text(max_size=8)
FLOAT = st.floats(allow_nan=False)
COUNT = st.integers(-1, 1 << 40)
PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | COUNT | FLOAT | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
TOOLS = st.builds(Tool, TEXT, TEXT, st.dictionaries(TEXT, st.tuples(TEXT, TEXT), max_size=2))
SECONDS = st.none() | st.floats(min_value=1e-3, max_value=1e9)
LIMITS = st.builds(TaskLimits, st.integers(0, 99), st.integers(0, 10**6), SECONDS, SECONDS)
TASKS = st.builds(
    Task, id=TEXT, world=TEXT, system=TEXT, prompt=TEXT, tools=st.lists(TOOLS, max_size=2).map(tuple), limits=LIMITS,
    data=st.dictionaries(TEXT, PLAIN, max_size=2), split=st.sampled_from(["train", "heldout", "unseen"]),
)  # fmt: skip
OUTCOMES = st.builds(Outcome, st.none() | FLOAT, st.dictionaries(TEXT, FLOAT, max_size=2), TEXT)
TURNS = st.builds(Turn, TEXT, TEXT, COUNT, COUNT, TEXT)


@st.composite
def records(draw: st.DrawFn) -> TokenRecord:
    n = draw(st.integers(0, 6))

    def stream(item: st.SearchStrategy[Any]) -> tuple[Any, ...]:
        return tuple(draw(st.lists(item, min_size=n, max_size=n)))

    return TokenRecord(
        ids=stream(COUNT), roles=stream(st.sampled_from(["think", "answer", "glue"])), turns=stream(COUNT),
        sources=stream(TEXT), mask=stream(st.integers(0, 1)), logp_mu=stream(FLOAT), versions=stream(COUNT),
    )  # fmt: skip


BRANCHES = st.builds(Branch, records(), st.lists(TURNS, max_size=2).map(tuple), COUNT, TEXT, TEXT)
TRAJECTORIES = st.builds(
    Trajectory, id=TEXT, task=TASKS, source=TEXT, turns=st.lists(TURNS, max_size=2).map(tuple),
    record=records(), outcome=OUTCOMES, stop=TEXT, hint=TEXT, seed=COUNT, version=COUNT,
    branches=st.lists(BRANCHES, max_size=1).map(tuple),
)  # fmt: skip
MARKS = st.builds(KeyAction, TEXT, COUNT, COUNT, COUNT, TEXT, TEXT, FLOAT, COUNT, COUNT, COUNT, COUNT)
LIST_OF_MARKS = st.lists(MARKS, max_size=2).map(tuple)
FLOATS = st.lists(FLOAT, max_size=3).map(tuple)
CARRIERS = st.one_of(
    st.builds(Message, st.sampled_from(["system", "user", "assistant", "tool"]), TEXT),
    TOOLS, TASKS, OUTCOMES, TURNS, records(), TRAJECTORIES, MARKS,
    st.builds(Pair, TASKS, TRAJECTORIES, TRAJECTORIES),
    st.builds(Analysis, TEXT, TEXT, TEXT, COUNT, LIST_OF_MARKS, TEXT, TEXT, COUNT, COUNT),
    st.builds(Hint, TEXT, TEXT, TEXT, st.lists(TEXT, max_size=2).map(tuple)),
    st.builds(Sample, records(), FLOATS, FLOATS, TEXT),
    st.builds(Score, TEXT, TEXT, st.just("heldout"), COUNT, COUNT, COUNT, COUNT, COUNT),
    st.builds(Verdict, st.booleans(), TEXT, st.dictionaries(TEXT, PLAIN, max_size=2)),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(CARRIERS)
def test_round_trip_is_exact(carrier: Any) -> None:
    line = dumps(carrier)
    again = from_json(type(carrier), json.loads(line))
    assert again == carrier
    assert dumps(again) == line  # tells -0.0 from 0.0, and 1 from 1.0
    assert line.isascii() and "\n" not in line


def test_every_carrier_of_core_types_is_covered() -> None:
    carriers = {name for name, item in vars(types).items() if hasattr(item, "__dataclass_fields__")}
    assert carriers == {
        "Message", "Tool", "Task", "Outcome", "Observation", "Turn", "TokenRecord", "Trajectory", "Pair",
        "KeyAction", "Analysis", "Hint", "Sample", "Score", "Verdict",
        "Branch", "TaskLimits",
    }  # fmt: skip


def test_a_rollout_of_an_earlier_version_is_read() -> None:
    record = TokenRecord((1,), ("answer",), (0,), ("student",), (1,), (-0.5,), (0,))
    t = Trajectory("a", Task("t", "w", "", ""), "student", (Turn("m", "o", 0, 1),), record, Outcome(1.0))
    data = to_json(t)
    del data["branches"], data["turns"][0]["whole"]
    assert from_json(Trajectory, data) == t
    del data["turns"][0]["message"]
    with pytest.raises(ValueError, match="Turn must have the fields"):
        from_json(Trajectory, data)


def test_floats_keep_every_bit() -> None:
    values = (0.1 + 0.2, -0.0, 5e-324, math.inf, -1.7976931348623157e308)
    record = TokenRecord((1,) * 5, ("think",) * 5, (0,) * 5, ("student",) * 5, (1,) * 5, values, (0,) * 5)
    again = from_json(TokenRecord, json.loads(dumps(record)))
    assert [value.hex() for value in again.logp_mu] == [value.hex() for value in values]


def test_repeating_streams_are_stored_as_runs() -> None:
    record = TokenRecord(
        (5, 6, 7),
        ("user", "user", "think"),
        (-1, -1, 0),
        ("", "", "student"),
        (0, 0, 1),
        (0.0, 0.0, -0.5),
        (-1, -1, 3),
    )
    data = to_json(record)
    assert data["roles"] == [["user", 2], ["think", 1]]
    assert data["mask"] == [[0, 2], [1, 1]]
    assert data["ids"] == [5, 6, 7]


@pytest.mark.parametrize(
    "data",
    [
        {"role": "user"},
        {"role": "user", "content": "x", "more": 1},
        {"role": "user", "content": 3},
        ["user", "x"],
    ],
)
def test_data_of_another_shape_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="Message|str"):
        from_json(Message, data)


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        dumps(Verdict(True, "", {"x": {1}}))
    with pytest.raises(TypeError, match="key must be text: got 1"):
        dumps(Verdict(True, "", {"x": {1: 2}}))


def test_lines_in_lines_out(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    turns = [Turn(f"line\n{i}\u2028", "ü", i, i + 1) for i in range(4)]
    assert write_jsonl(path, turns[:2]) == 2
    assert append_jsonl(path, turns[2:]) == 2
    assert list(read_jsonl(path, Turn)) == turns


@pytest.mark.parametrize("torn", ['{"message":"ab', '{"message":"a","observation":"","token_start":0,"token_end":0}'])
def test_a_torn_last_line_does_not_count_and_is_cut_off(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "turns.jsonl"
    write_jsonl(path, [Turn("a", "b")])
    with path.open("a") as file:
        file.write(torn)
    assert list(read_jsonl(path, Turn)) == [Turn("a", "b")]
    append_jsonl(path, [Turn("c", "d")])
    assert list(read_jsonl(path, Turn)) == [Turn("a", "b"), Turn("c", "d")]


def test_several_appenders_do_not_split_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    rows = [[{"who": who, "i": i, "pad": "x" * 3000} for i in range(50)] for who in range(4)]
    threads = [threading.Thread(target=lambda r=r: [append_jsonl(path, [row]) for row in r]) for r in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = read_json_lines(path)
    assert [[row for row in read if row["who"] == who] for who in range(4)] == rows


def test_a_file_that_is_one_long_torn_line_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("x" * 200_000)
    append_jsonl(path, [{"a": 1}])
    assert read_json_lines(path) == [{"a": 1}]
    assert read_json_lines(tmp_path / "none.jsonl") == []


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text("\n{nothing}\n")
    with pytest.raises(ValueError, match=r"turns.jsonl line 2: not JSON"):
        list(read_jsonl(path, Turn))
    path.write_text('{"message": 1}\n')
    with pytest.raises(ValueError, match=r"turns.jsonl line 1: not a Turn"):
        list(read_jsonl(path, Turn))
