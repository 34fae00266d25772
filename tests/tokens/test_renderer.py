"""The renderer with the built-in tokenizer: what grows piece by piece is what the template renders."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.types import Task, Tool
from noria.envs import arithmetic, ledger
from noria.tokens.calls import parse, render_call
from noria.tokens.renderer import Renderer, tool_schema

printable = st.text(
    st.characters(min_codepoint=32, max_codepoint=126, include_characters="\n\t"), min_size=1, max_size=30
)
TOOLS = (Tool("get", "read", {"id": ("string", "account")}), Tool("submit", "end"))
END = "<|end|>"


@given(printable, printable, st.lists(st.tuples(printable, printable), max_size=4), st.booleans())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_pieces_add_up_to_the_whole_conversation(
    renderer: Renderer, system: str, prompt: str, turns: list[tuple[str, str]], tools: bool
) -> None:
    task = Task("t", "w", system, prompt, TOOLS if tools else ())
    piece = renderer.prompt(task)
    ids, roles = list(piece.ids), list(piece.roles)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
    for said, seen in turns:
        message, observation = renderer.message(said), renderer.observation(seen)
        ids += [*message, *observation.ids]
        roles += [*renderer.roles(message), *observation.roles]
        messages += [{"role": "assistant", "content": said}, {"role": "tool", "content": seen}]
    schemas = [tool_schema(tool) for tool in task.tools] or None
    want = renderer.tokenizer.apply_chat_template(
        messages, tools=schemas, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    assert ids == list(want)
    assert len(roles) == len(ids)


@given(printable, printable)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_text_survives_encoding(renderer: Renderer, said: str, seen: str) -> None:
    assert renderer.decode(renderer.message(said)) == said
    piece = renderer.observation(seen)
    kept = [i for i, role in zip(piece.ids, piece.roles, strict=True) if role == "observation"]
    assert renderer.decode(kept) == seen


def test_a_hint_stands_in_the_user_message(renderer: Renderer) -> None:
    (task,) = ledger.build(ledger.Config(), None).tasks("train", 1, 0)
    plain, hinted = renderer.prompt(task), renderer.prompt(task, "List first.")
    assert set(plain.roles) == {"user"}
    assert "Hint" not in renderer.decode(plain.ids)
    assert f"{task.prompt}\nHint: List first.{END}" in renderer.decode(hinted.ids)


def test_an_observation_closes_a_turn_that_was_cut_off(renderer: Renderer) -> None:
    ended, cut = renderer.observation("ok"), renderer.observation("ok", ended=False)
    assert cut.ids == (*renderer.end_ids, *ended.ids)
    assert cut.roles == ("glue", *ended.roles)
    assert renderer.decode(ended.ids) == "<|tool|>ok<|end|><|assistant|>"


def spoken(renderer: Renderer, text: str) -> dict[str, str]:
    """The text of a message by the role of its tokens."""
    ids = renderer.message(text)
    out: dict[str, str] = {}
    for token, role in zip(ids, renderer.roles(ids), strict=True):
        out[role] = out.get(role, "") + renderer.tokenizer.decode([token])
    return out


def test_roles_of_a_message_with_a_thought_and_calls(renderer: Renderer) -> None:
    text = "<think>read first</think>" + render_call("get", id="A1") + render_call("submit") + "so"
    assert spoken(renderer, text) == {
        "think": "<think>read first</think>",
        "tool_name": '<call name="get"><call name="submit">',
        "tool_args": "<id>A1</id></call></call>",
        "answer": f"so{END}",
    }


def test_roles_of_a_call_that_no_single_token_opens(renderer: Renderer) -> None:
    found = spoken(renderer, render_call("swap_two", a="1") + "x")
    assert found["tool_name"].endswith('name="swap_two">')
    assert found["tool_args"] == "<a>1</a></call>"
    assert found["answer"].endswith(f"x{END}")


def test_roles_of_a_thought_that_mentions_a_call(renderer: Renderer) -> None:
    text = '<think>try <call name="get"><id>A1</id></call> now</think>7'
    assert parse(text).calls == ()
    assert spoken(renderer, text) == {"think": text[:-1], "answer": f"7{END}"}


def test_roles_of_an_unfinished_thought(renderer: Renderer) -> None:
    ids = renderer.encode("<think>3+4=7")
    assert set(renderer.roles(ids)) == {"think"}


@pytest.mark.parametrize("world", [ledger.build(ledger.Config(), None), arithmetic.build(arithmetic.Config(), None)])
def test_roles_of_real_messages_agree_with_the_parser(renderer: Renderer, world) -> None:
    for task in world.tasks("train", 12, 3):
        for said in world.reference(task):
            parsed, found = parse(said), spoken(renderer, said)
            think = found.get("think", "")
            assert think.removeprefix("<think>").removesuffix("</think>").strip() == parsed.think
            assert found["answer"].removesuffix(END).strip() == parsed.answer
            assert found.get("tool_name", "") == "".join(f'<call name="{call.name}">' for call in parsed.calls)


def test_the_end_of_turn_is_not_part_of_the_text(renderer: Renderer) -> None:
    ids = renderer.message("42")
    assert ids[-1] == renderer.tokenizer.eos_token_id and renderer.end_ids == (ids[-1],)
    assert renderer.decode(ids) == renderer.decode(ids[:-1]) == "42"
