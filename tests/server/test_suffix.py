"""What a server puts behind an answer under templates of other models, and what it recognises of an answer."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from noria.core.types import Tool
from noria.server import keys
from noria.server.calls import content_length, taken_apart
from noria.server.model import Limits, Served
from noria.server.schema import ChatMessage, ChatRequest, ToolSpec
from noria.tokens.renderer import Renderer, tool_schema

EDIT = Tool("edit", "change a line", {"line": ("integer", "its number")})
BODY = "{% for m in messages %}<|{{ m['role'] }}|>{{ WORDS }}<|end|>{% endfor %}"
START = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
PLAIN = BODY.replace("WORDS", "m['content']") + START
TRIMMED = BODY.replace("WORDS", "m['content'] | trim") + START
#: Thoughts of earlier turns are left out once a user speaks again.
FORGETFUL = (
    "{% set last = namespace(at=-1) %}"
    "{% for m in messages %}{% if m['role'] == 'user' %}{% set last.at = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|{{ m['role'] }}|>"
    "{% if loop.index0 < last.at %}{{ m['content'].split('</think>') | last }}{% else %}{{ m['content'] }}{% endif %}"
    "<|end|>{% endfor %}" + START
)
BACKWARDS = PLAIN.replace("in messages", "in messages | reverse")
HERMES = '{% if tools %}<|system|>call as <tool_call>{"name": …, "arguments": …}</tool_call><|end|>{% endif %}' + PLAIN


def served(renderer: Renderer, template: str) -> Served:
    tokenizer = copy.deepcopy(renderer.tokenizer)
    tokenizer.chat_template = template
    return Served("m", tokenizer, renderer.end_ids, Limits(64))


def asked(*messages: tuple[str, str], tools: Any = None) -> ChatRequest:
    said = [{"role": role, "content": content} for role, content in messages]
    return ChatRequest.model_validate({"model": "m", "messages": said, "tools": tools})


@pytest.mark.parametrize("template", [PLAIN, TRIMMED, FORGETFUL])
@pytest.mark.parametrize("ended", [True, False])
def test_the_suffix_is_what_the_template_adds(renderer: Renderer, template: str, ended: bool) -> None:
    model = served(renderer, template)
    request = asked(
        ("user", "a"), ("assistant", "b"), ("tool", "c <|end|>"), ("tool", "d"), ("assistant", "e"), ("user", "f")
    )
    found = model.suffix(request, 1, " b", ended)
    native, encode = renderer.native, renderer.encode
    wanted = [*native("<|tool|>"), *encode("c <|end|>"), *native("<|end|><|tool|>"), *encode("d")]
    wanted += [*native("<|end|><|assistant|>"), *encode("e"), *native("<|end|><|user|>"), *encode("f")]
    wanted += native("<|end|><|assistant|>")
    assert found == (*(() if ended else native("<|end|>")), *wanted)


def test_a_template_that_rewrites_is_rendered_anew(renderer: Renderer) -> None:
    thought = "<think>t</think>b"
    again, tool = (
        [("user", "a"), ("assistant", thought), ("user", "c")],
        [("user", "a"), ("assistant", thought), ("tool", "c")],
    )
    assert served(renderer, FORGETFUL).suffix(asked(*again), 1, thought, True) is None
    assert served(renderer, FORGETFUL).suffix(asked(*tool), 1, thought, True) is not None
    assert served(renderer, PLAIN).suffix(asked(*again), 1, thought, True) is not None
    assert served(renderer, BACKWARDS).suffix(asked(*again), 1, thought, True) is None
    earlier = [*tool, ("assistant", "d"), ("user", "e")]  # the last answer has no thought, the first had one
    assert served(renderer, FORGETFUL).suffix(asked(*earlier), 3, "d", True) is None


def test_calls_are_read_in_the_form_that_the_template_teaches(renderer: Renderer) -> None:
    model, tools = served(renderer, HERMES), [ToolSpec.model_validate(tool_schema(EDIT))]
    assert model.form.name == "hermes" and served(renderer, PLAIN).form.name == "xml"
    text = 'so\n<tool_call>\n{"name": "edit", "arguments": {"line": 3}}\n</tool_call>'
    content, calls = taken_apart(text, tools, model.form)
    assert (content, calls) == ("so", [{"name": "edit", "arguments": '{"line": 3}'}])
    assert taken_apart("so <tool_call>{", tools, model.form) == ("so <tool_call>{", [])
    lengths = [content_length(text[:n], model.form) for n in range(len(text) + 1)]
    assert lengths == sorted(lengths) and lengths[-1] == 2
    call = {"type": "function", "function": calls[0]}
    request = ChatRequest.model_validate(
        {
            "model": "m", "tools": [tool_schema(EDIT)],
            "messages": [
                {"role": "user", "content": "u"}, {"role": "assistant", "content": content, "tool_calls": [call]},
            ],
        }
    )  # fmt: skip
    assert model.said(request)[1][1] == text


def key(**fields: Any) -> str:
    return keys.then("", ChatMessage.model_validate({"role": "assistant", **fields}))


def test_an_answer_is_recognised_by_what_it_means() -> None:
    call = {"function": {"name": "f", "arguments": '{"a": 1, "b": [2]}'}}
    other = {"function": {"name": "f", "arguments": '{ "b":[2], "a":1 }'}}
    told = keys.then_said("", "<think>t</think>w \n x", [call["function"]])
    parts = [{"type": "text", "text": "<think>t</think>"}, {"type": "text", "text": "w\n x "}]
    assert key(content="<think> t </think> w\n x", tool_calls=[other]) == told
    assert key(content=" w\r\n x", reasoning_content="t", tool_calls=[call]) == told
    assert key(content=parts, tool_calls=[call]) == told
    changed = [{"function": {"name": "f", "arguments": '{"a": 1, "b": [3]}'}}]
    for other_fields in (
        {"content": "w\n x", "tool_calls": [call]}, {"content": "<think>t</think>w\n x"},
        {"content": "<think>t</think>w\nx", "tool_calls": [call]},
        {"content": "<think>t</think>w\n x", "tool_calls": changed},
    ):  # fmt: skip
        assert key(**other_fields) != told
    assert key() == key(content="") == key(content=" \n") == keys.then_said("", "", [])
    deep = [{"function": {"name": "f", "arguments": "[" * 100_000}}]
    assert key(tool_calls=deep) != key()


def test_other_messages_are_compared_letter_by_letter() -> None:
    def of(role: str, text: str) -> str:
        return keys.then("k", ChatMessage.model_validate({"role": role, "content": text}))

    assert of("developer", "a") == of("system", "a") != of("user", "a")
    assert of("user", "a") != of("user", "a ")
    assert keys.opening([]) != keys.opening([ToolSpec.model_validate(tool_schema(EDIT))])
