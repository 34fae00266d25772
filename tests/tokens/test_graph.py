"""Calls joined into branches: tokens, masks and turns against ones that are worked out by hand."""

from __future__ import annotations

import pytest

from noria.core.codec import from_json, to_json
from noria.core.types import Outcome, Task, Trajectory
from noria.stages.jobs import parts
from noria.tokens.graph import Answer, Call, Graph, Place, runs, trajectory
from noria.tokens.record import authored

TASK = Task("t", "recorded", "", "")


def answer(*ids: int, text: str = "said") -> Answer:
    logp = tuple(-float(i) for i in ids)
    return Answer(ids, logp, (7,) * len(ids), runs(["think", *["answer"] * (len(ids) - 1)]), text, "stop")


def built(graph: Graph) -> Trajectory:
    return trajectory(graph, "t", TASK, Outcome(1.0), "done", seed=5)


def test_calls_in_a_row_are_one_branch() -> None:
    graph = Graph()
    graph.add(Call(None, (1, 2), "ask", (answer(3, 4, text="a"),)))
    graph.add(Call(Place(0, 0), (5,), "seen", (answer(6, 7, 8, text="b"),)))
    found = built(graph)
    record = found.record
    assert record.ids == (1, 2, 3, 4, 5, 6, 7, 8) and record.mask == (0, 0, 1, 1, 0, 1, 1, 1)
    assert record.logp_mu == (0.0, 0.0, -3.0, -4.0, 0.0, -6.0, -7.0, -8.0)
    assert record.versions == (-1, -1, 7, 7, -1, 7, 7, 7) and record.turns == (-1, -1, 0, 0, 0, 1, 1, 1)
    assert record.roles == ("user", "user", "think", "answer", "observation", "think", "answer", "answer")
    assert [(t.message, t.observation, t.token_start, t.token_end) for t in found.turns] == [
        ("a", "seen", 2, 4), ("b", "", 5, 8)
    ]  # fmt: skip
    assert (found.version, found.seed, found.branches) == (7, 5, ())


def test_a_fork_shares_its_beginning_and_trains_it_once() -> None:
    graph = Graph()
    graph.add(Call(None, (1,), "", (answer(2, text="root"),)))
    graph.add(Call(Place(0, 0), (3,), "x", (answer(4, text="left"),)))
    graph.add(Call(Place(0, 0), (5, 6), "y", (answer(7, text="right"), answer(8, 9, text="third"))))
    graph.add(Call(Place(1, 0), (10,), "z", (answer(11, text="left again"),)))
    found = built(graph)
    records = [*(branch.record for branch in found.branches), found.record]
    assert [r.ids for r in records] == [(1, 2, 5, 6, 7), (1, 2, 5, 6, 8, 9), (1, 2, 3, 4, 10, 11)]
    assert [r.mask for r in records] == [(0, 1, 0, 0, 1), (0, 0, 0, 0, 1, 1), (0, 0, 0, 1, 0, 1)]
    assert [r.turns for r in records] == [(-1, 0, 0, 0, 1), (-1, -1, -1, -1, 2, 2), (-1, -1, -1, 3, 3, 4)]
    assert [t.message for t in found.turns] == ["root", "right", "third", "left", "left again"]
    assert [t.observation for t in found.turns] == ["y", "", "", "z", ""]
    assert [(t.token_start, t.token_end) for t in found.turns] == [(0, 0), (0, 0), (0, 0), (3, 4), (5, 6)]
    assert [branch.first for branch in found.branches] == [0, 2] and found.action_tokens == 6
    assert sum(sum(authored(part.record)) for part in parts(found)) == 6
    for part in parts(found):
        spans = [part.record.ids[t.token_start : t.token_end] for t in part.turns if t.token_end]
        assert [token for span in spans for token in span] == [
            i for i, m in zip(part.record.ids, part.record.mask, strict=True) if m
        ]
    assert from_json(Trajectory, to_json(found)) == found


def test_what_was_drawn_off_the_policy_or_reached_nobody_is_no_action() -> None:
    graph = Graph()
    graph.add(Call(None, (1,), "", (answer(2),), on_policy=False))
    graph.add(Call(Place(0, 0), (3,), "", (answer(4, text="lost"),)))
    graph.dropped.add(Place(1, 0))
    graph.add(Call(Place(0, 0), (3,), "", (answer(5, text="heard"),)))
    found = built(graph)
    assert found.branches == () and found.record.ids == (1, 2, 3, 5) and found.record.mask == (0, 0, 0, 1)
    assert found.record.logp_mu[1] == 0.0 and found.record.versions[1] == -1 and authored(found.record) == (0, 1, 0, 1)
    graph.add(Call(Place(1, 0), (6,), "", (answer(7),)))  # it was heard after all
    assert [turn.message for turn in built(graph).turns] == ["said", "heard", "lost", "said"]


def test_the_longest_stream_is_gone_on_from() -> None:
    graph = Graph()
    graph.add(Call(None, (1, 2), "", (answer(3), answer(3))))
    graph.add(Call(Place(0, 1), (4,), "", (answer(5),)))
    assert graph.longest_prefix((1, 2, 3)) is None
    assert graph.longest_prefix((1, 2, 3, 9)) == Place(0, 1)
    assert graph.longest_prefix((1, 2, 3, 4, 5, 6)) == Place(1, 0)
    assert graph.stream(Place(1, 0)) == (1, 2, 3, 4, 5) == graph.prompt(graph.calls[1]) + (5,)


def test_a_graph_refuses_what_joins_nowhere() -> None:
    graph = Graph()
    with pytest.raises(ValueError, match="none was recorded"):
        built(graph)
    with pytest.raises(ValueError, match="go on from an answer"):
        graph.add(Call(Place(0, 0), (1,), "", ()))
