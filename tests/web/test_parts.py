"""The parts of the report: messages, marks, pictures, curves, axes."""

from __future__ import annotations

import json

import pytest
from fabricate import Maker
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.tokens.calls import render_call
from noria.web.charts import dots, forest, lines, ticks
from noria.web.data import read_curves
from noria.web.figures import duration
from noria.web.pairs import char_span, split_message
from noria.web.picture import clean


def test_a_message_is_taken_apart_in_order() -> None:
    parts = split_message("<think>so</think>" + render_call("edit", old="a<b", new="c") + " done")
    assert [(p.kind, p.name, p.runs) for p in parts] == [
        ("think", "", (("so", 0),)),
        ("call", "edit", (("old='a<b', new='c'", 0),)),
        ("answer", "", ((" done", 0),)),
    ]


@pytest.mark.parametrize("message", ["<think>never closed", '<call name="view"><a>1', "</call>", "<think></think>", ""])
def test_malformed_messages_lose_no_text(message: str) -> None:
    said = "".join(text for part in split_message(message) for text, _ in part.runs)
    assert said == message.removeprefix("<think>").removesuffix("</think>")


@settings(max_examples=60, deadline=None)
@given(
    st.text("ab <>/", max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=3),
)
def test_marks_change_no_text_of_an_answer(message: str, spans: list[tuple[int, int]]) -> None:
    numbered = sorted((min(s), max(s), i + 1) for i, s in enumerate(spans))
    said = "".join(text for part in split_message(message, numbered) for text, _ in part.runs)
    assert said == (message if message.strip() else "")


def test_token_spans_find_their_characters(tmp_path, tokenizer) -> None:
    maker = Maker(tmp_path, tokenizer)
    pair = maker.pair("arithmetic", 4)
    mark = maker.marks(pair)[0]
    turn, ids = pair.wrong.turns[0], pair.wrong.record.ids
    decode = tokenizer.decode
    start, end = char_span(turn, mark, ids, decode)
    assert turn.message[:start] == decode(list(ids[turn.token_start : mark.token_start]))
    assert turn.message[start:end] == decode(list(ids[turn.token_start : mark.token_end]))[start:]
    assert char_span(turn, mark, ids, None) is None
    assert char_span(turn, mark, ids, lambda ids: "?" * len(ids)) is None  # another model's tokenizer


def test_pictures_keep_only_what_draws() -> None:
    hostile = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" onload="x()">'
        "<script>x()</script><style>*{}</style>"
        '<a href="javascript:x()"><text>link</text></a><rect x="1" fill="url(#a)" onclick="x()"/>'
        "<g><title>a &lt;b&gt;</title><text x='2'>t &amp; u</text></g>"
        "<foreignObject><p>p</p></foreignObject></svg>"
    )
    assert clean(hostile, 'say "hi"') == (
        '<svg viewBox="0 0 9 9" class="flow" role="img" aria-label="say &#34;hi&#34;"><rect x="1"></rect>'
        '<g><title>a &lt;b&gt;</title><text x="2">t &amp; u</text></g></svg>'
    )


@pytest.mark.parametrize(
    "text", ["", "<p>no</p>", "<svg>", "<!DOCTYPE svg><svg/>", '<?xml version="1.0"?><svg/>', "plain"]
)
def test_what_is_no_picture_is_refused(text: str) -> None:
    assert clean(text, "x") is None


def test_a_deep_picture_ends() -> None:
    deep = "<svg>" + "<g>" * 5000 + "</g>" * 5000 + "</svg>"
    assert clean(deep, "x").count("<g>") == 12


def test_a_resumed_step_counts_once_and_rounds_stay_apart() -> None:
    rows = [
        {"phase": "round-1/sft", "step": 1, "loss/ce": 2.0, "grad_norm": 1.0},
        {"phase": "round-1/sft", "step": 2, "loss/ce": 1.5},
        {"phase": "round-1/sft", "step": 2, "loss/ce": 1.25},
        {"phase": "round-2/sft", "step": 1, "loss/ce": float("nan")},
        {"phase": "round-2/sft", "step": 1, "loss/ce": 1.0},
        {"phase": "round-1/experts/a", "step": 1, "distill/abs/b": 0.1, "reward/mean": 0.5},
        {"note": "no phase"},
    ]
    curves = read_curves(json.loads(json.dumps(rows)))
    assert [(p.title, p.lines) for p in curves["sft"]] == [
        ("loss: ce", {"round 1": [(1.0, 2.0), (2.0, 1.25)], "round 2": [(1.0, 1.0)]})
    ]
    assert [p.title for p in curves["experts/a"]] == ["mean reward", "mean |k1| to teacher: b"]


@settings(max_examples=100, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_inside_and_are_few(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert 1 <= len(found) <= 6
    assert all(low - 1e-6 * span - 1e-9 <= v <= low + span * (1 + 1e-6) + 1e-9 for v in found)


def test_degenerate_charts_are_drawn() -> None:
    assert "nan" not in dots("x", ["a"], [("r", [])])
    assert "nan" not in lines("x", [(0, "r", [(1.0, 0.0)])])
    assert "nan" not in forest("x", [("w", 0.0, 0.0, 0.0, "even")])
    assert lines("x", []) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (42.4, "42 s"), (61, "1 min 01 s"), (3725, "1 h 02 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
