"""A template without a place for tools: they are described in the system message, and turns stay prefix-stable."""

from __future__ import annotations

from test_templates import CHATML, tokenizer

from noria.core.types import Task, Tool
from noria.tokens.calls import parse, render_call
from noria.tokens.renderer import Renderer
from noria.tokens.tools import described

TOOLS = (Tool("get", "reads an account", {"id": ("string", "the account")}), Tool("submit", "ends the task"))


def test_a_template_that_ignores_tools_gets_them_in_words() -> None:
    renderer = Renderer(tokenizer(CHATML))
    text = renderer.tokenizer.decode(renderer.prompt(Task("t", "w", "Be brief.", "go", TOOLS)).ids)
    assert text == (
        "<|im_start|>system\nBe brief.\n\nTools, and how to call them:\n"
        '<call name="get"><id>…</id></call> reads an account\n  id: the account (string)\n'
        '<call name="submit"></call> ends the task<|im_end|>\n<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n'
    )
    assert [call.name for call in parse(described(TOOLS)).calls] == ["get", "submit"]
    assert renderer.prompt(Task("t", "w", "Be brief.", "go")).ids == tuple(
        renderer.tokenizer.encode(
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n"
        )
    )


def test_a_template_that_teaches_other_calls_gets_them_in_words_too() -> None:
    teaches = CHATML.replace(
        "{{ m.content }}",
        "{{ m.content }}{% if loop.first and tools %}{{ tools | tojson }} Return <tool_call> with "
        '{"name": …, "arguments": …}{% endif %}',
    )
    named = CHATML.replace(
        "{{ m.content }}", "{{ m.content }}{% if loop.first and tools %} {{ tools[0].function.name }}{% endif %}"
    )
    task = Task("t", "w", "Be brief.", "go", TOOLS)
    text, other = (
        Renderer(tokenizer(t)).tokenizer.decode(Renderer(tokenizer(t)).prompt(task).ids) for t in (teaches, named)
    )
    assert described(TOOLS) in text and "<tool_call>" not in text
    assert "Be brief. get<|im_end|>" in other and described(TOOLS) not in other


def test_calls_in_a_foreign_tokenizer_grow_a_conversation_without_rewriting_it() -> None:
    renderer = Renderer(tokenizer(CHATML))
    said = "<think>look first</think>" + render_call("get", id="A1")
    ids = [
        *renderer.prompt(Task("t", "w", "s", "u", TOOLS)).ids,
        *renderer.message(said),
        *renderer.observation("12").ids,
    ]
    whole = renderer.tokenizer.apply_chat_template(
        [
            {"role": "system", "content": "s\n\n" + described(TOOLS)}, {"role": "user", "content": "u"},
            {"role": "assistant", "content": said}, {"role": "tool", "content": "12"},
        ],
        add_generation_prompt=True, tokenize=False,
    )  # fmt: skip
    assert renderer.tokenizer.decode(ids) == whole
    roles = renderer.roles(renderer.message(said))
    assert {"think", "tool_name", "tool_args", "answer"} == set(roles)
