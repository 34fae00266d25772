"""The record of a rollout: equal streams, a mask on sampled tokens alone, prefixes and rewritten rollouts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.types import TokenRecord
from noria.tokens.record import RecordBuilder, authored, edited
from noria.tokens.renderer import Piece

ROLES = ("think", "tool_name", "tool_args", "answer")
steps = st.lists(st.tuples(st.sampled_from(["rendered", "sampled", "written"]), st.integers(0, 5)), max_size=12)


def build(plan: list[tuple[str, int]]) -> tuple[TokenRecord, list[tuple[str, int, int]]]:
    """A record from a plan, and for every piece (kind, start, end)."""
    record, spans, token = RecordBuilder(), [], 0
    for kind, n in plan:
        ids = tuple(range(token, token + n))
        start = len(record)
        token += n
        if kind == "rendered":
            record.rendered(Piece(ids, ("observation",) * n))
        elif kind == "sampled":
            span = record.sampled(ids, [ROLES[i % 4] for i in ids], [-0.5 - i for i in ids], [7] * n)
            assert span == (start, start + n)
        else:
            assert record.written(ids, ["answer"] * n, "teacher:t") == (start, start + n)
        spans.append((kind, start, start + n))
    return record.freeze(), spans


@given(steps)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_only_sampled_tokens_carry_loss(plan: list[tuple[str, int]]) -> None:
    record, spans = build(plan)
    assert record.ids == tuple(range(len(record)))
    turn = -1
    for kind, start, end in spans:
        turn += kind != "rendered"
        for t in range(start, end):
            mine = kind == "sampled"
            assert record.mask[t] == mine
            assert record.logp_mu[t] == (-0.5 - t if mine else 0.0)
            assert record.versions[t] == (7 if mine else -1)
            assert record.turns[t] == turn
            assert record.sources[t] == ("teacher:t" if kind == "written" else "student")
            assert authored(record)[t] == (kind != "rendered")


@given(steps, st.integers(0, 60))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_prefix_is_input_alone(plan: list[tuple[str, int]], cut: int) -> None:
    record, _ = build(plan)
    cut = min(cut, len(record))
    builder = RecordBuilder()
    builder.prefix(record, cut)
    head = builder.freeze()
    assert head.ids == record.ids[:cut] and head.roles == record.roles[:cut] and head.turns == record.turns[:cut]
    assert not any(head.mask) and set(head.logp_mu) <= {0.0} and set(head.versions) <= {-1}
    for t in range(cut):
        assert head.sources[t] == ("expert" if record.mask[t] else record.sources[t])
    span = builder.sampled((9,), ("answer",), (-1.0,), (3,))
    assert span == (cut, cut + 1)
    assert builder.freeze().turns[-1] == max(record.turns[:cut], default=-1) + 1


def test_the_same_turn_can_be_continued() -> None:
    builder = RecordBuilder()
    builder.rendered(Piece((1, 2), ("user", "user")))
    builder.written((3,), ("think",), "edited")
    builder.sampled((4, 5), ("think", "answer"), (-0.1, -0.2), (0, 0), same_turn=True)
    record = builder.freeze()
    assert record.turns == (-1, -1, 0, 0, 0)
    assert record.mask == (0, 0, 0, 1, 1) and record.action_tokens == 2
    assert record.sources == ("student", "student", "edited", "student", "student")


@given(steps)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_rewritten_rollout_was_not_sampled(plan: list[tuple[str, int]]) -> None:
    record, _ = build(plan)
    again = edited(record)
    assert again.ids == record.ids and again.roles == record.roles and again.turns == record.turns
    assert not any(again.mask) and set(again.logp_mu) <= {0.0} and set(again.versions) <= {-1}
    # What an assistant says in it is the editor's, also where a script had said it; the rest is as it was.
    for t, said in enumerate(authored(record)):
        assert again.sources[t] == ("edited" if said else record.sources[t])


def test_unequal_streams_are_refused() -> None:
    with pytest.raises(ValueError, match="equal streams: 2, 1, 2, 2"):
        RecordBuilder().sampled((1, 2), ("answer",), (0.0, 0.0), (0, 0))
    with pytest.raises(ValueError, match="one length"):
        TokenRecord((1,), (), (), (), (), (), ())
