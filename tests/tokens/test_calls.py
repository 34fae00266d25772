"""Tool calls: what is rendered parses back, and whatever a model says gives a message or a `PolicyError`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.errors import PolicyError
from noria.tokens.calls import Call, Parsed, parse, render_call

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)
keys = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(lambda key: key not in ("name", "think"))
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)
fragments = st.sampled_from(
    [
        '<call name="get">', '<call name="a-b">', "<call name='x'>", '<call name="9">', "<call", "</call>",
        "<id>", "</id>", "<new>", "</new>", "<think>", "</think>", "<call>", "name", '"', "<", ">", "&lt;",
        "x", " ", "\n", "\x00", "é", "</",
    ]
)  # fmt: skip


@st.composite
def calls(draw: st.DrawFn) -> Call:
    args = draw(st.dictionaries(keys, values, max_size=4))
    tags = ("<think>", "</think>")
    kept = {k: v for k, v in args.items() if f"</{k}>" not in v and not any(tag in v for tag in tags)}
    return Call(draw(names), kept)


@given(st.lists(calls(), max_size=3), st.text("abc .!?=42", max_size=12), st.text("abc <>&=/", max_size=12))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_what_is_rendered_parses_back(made: list[Call], answer: str, thought: str) -> None:
    said = "".join(render_call(call.name, **call.args) for call in made)
    parsed = parse(f"<think>{thought}</think>{said}{answer}")
    assert parsed == Parsed(thought.strip(), tuple(made), answer.strip())


@given(st.lists(fragments, max_size=14))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_message_is_taken_apart_or_refused(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        parsed = parse(text)
    except PolicyError:
        return
    # Nothing is lost without a word: what is left over holds no piece of a call.
    assert "<call" not in parsed.answer and "</call>" not in parsed.answer
    assert "<think>" not in parsed.answer and "</think>" not in parsed.answer
    assert text.count('<call name="') >= len(parsed.calls)


def test_values_are_raw_text() -> None:
    code = "if a<b and c>d: return '</old>' & \"x\"\n\tpass"
    assert parse(render_call("edit", new=code)).calls == (Call("edit", {"new": code}),)


def test_white_space_between_arguments_is_free() -> None:
    text = '<call name="edit">\n  <line> 3 </line>\n\t<old></old>\n</call>'
    assert parse(text).calls == (Call("edit", {"line": " 3 ", "old": ""}),)


def test_calls_thoughts_and_answer_in_any_order() -> None:
    first, last = '<call name="list"></call>', '<call name="submit"></call>'
    text = f"so <think>one</think>{first} and <think> two</think>then{last} done"
    assert parse(text) == Parsed("one two", (Call("list"), Call("submit")), "so  and then done")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("<think>on and on", "close it with </think>"),
        ("on</think>", "close it with </think>"),
        ('<call name="get"><id>A1</id>', "end it with </call>"),
        ('<call name="get">A1</call>', "end it with </call>"),
        ('<call name="get"><id>A1</call>', "end it with </id>"),
        ('<call name="get"><id>A1</id><id>B2</id></call>', "given twice"),
        ("<call name=get><id>A1</id></call>", "malformed call"),
        ("2</call>", "malformed call"),
    ],
)
def test_a_malformed_message_says_what_to_mend(message: str, told: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse(message)
    assert told in str(caught.value)


def test_a_thought_about_a_call_is_not_a_call() -> None:
    parsed = parse('<think>maybe <call name="get"><id>A1</id></call></think><call name="list"></call>')
    assert parsed.calls == (Call("list"),)
