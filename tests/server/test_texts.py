"""Text in pieces, tool calls there and back."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from noria.server.calls import content_length, taken_apart, written
from noria.server.errors import ApiError
from noria.server.schema import ChatMessage, ToolSpec
from noria.server.text import TextStream, overlap
from noria.tokens.renderer import Renderer

TEXTS = (
    "The quick brown fox",
    "naïve – 12 € 漢字 🙂 end",
    '<think>a <call or not</think><call name="edit"><line>3</line></call> done',
    "",
)


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_make_the_text(renderer: Renderer, text: str) -> None:
    stream = TextStream(renderer.tokenizer.decode, renderer.end_ids)
    pieces = [stream.push(token) for token in renderer.message(text)]
    assert "�" not in "".join(pieces)
    assert "".join(pieces) + stream.flush() == text and stream.ended


def test_broken_characters_come_at_the_end_only(renderer: Renderer) -> None:
    ids = renderer.encode("漢")[:-1]
    stream = TextStream(renderer.tokenizer.decode, renderer.end_ids)
    assert [stream.push(token) for token in ids] == [""] * len(ids)
    assert stream.flush() == renderer.decode(ids)


def test_a_stop_string_is_found_over_the_edges_of_pieces(renderer: Renderer) -> None:
    draw = random.Random(0)
    for _ in range(200):
        text = "".join(draw.choice("ab ") for _ in range(20))
        stops = ["".join(draw.choice("ab ") for _ in range(draw.randint(1, 4))) for _ in range(2)]
        stream = TextStream(renderer.tokenizer.decode, renderer.end_ids, stops)
        found = "".join(stream.push(token) for token in renderer.encode(text)) + stream.flush()
        # Of several stop strings that end in one piece the leftmost wins; a later piece cannot undo it.
        firsts = [text.index(stop) for stop in stops if stop in text]
        assert stream.stopped == bool(firsts)
        assert text.startswith(found) and not any(stop in found for stop in stops)
        if not firsts:
            assert found == text
        elif len(set(firsts)) == 1:
            assert found == text[: firsts[0]]


@pytest.mark.parametrize(("text", "mark", "n"), [("ab<ca", "<call", 3), ("<call", "<call", 0), ("x", "<call", 0)])
def test_how_much_of_a_mark_has_begun(text: str, mark: str, n: int) -> None:
    assert overlap(text, mark) == n


def tool(name: str, **kinds: str) -> ToolSpec:
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    return ToolSpec.model_validate(
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
    )


EDIT = tool("edit", line="integer", new="string", tags="array")


def message(text: str) -> tuple[ChatMessage, str, list[dict[str, str]]]:
    content, calls = taken_apart(text, [EDIT])
    data: dict[str, Any] = {"role": "assistant", "content": content}
    data["tool_calls"] = [{"id": "1", "type": "function", "function": call} for call in calls]
    return ChatMessage.model_validate(data), content, calls


@pytest.mark.parametrize(
    "text",
    [
        '<call name="edit"><line>3</line><new>a < b && c</new></call>',
        '<think>why</think>\nSo: <call name="edit"><line>3</line></call><call name="read"></call>',
        '<think>not <call name="x"></call></think><call name="edit"><tags>[1, "a"]</tags></call>',
        "no call at all",
        '<call name="edit"><line>3',
        "<think>unfinished",
    ],
)
def test_a_message_is_found_again(text: str) -> None:
    assert written(message(text)[0], "messages.0") == text


def test_arguments_have_the_types_of_the_schema() -> None:
    _, content, calls = message('ok<call name="edit"><line>3</line><new>4</new><tags>oops</tags><more>5</more></call>')
    assert content == "ok" and calls[0]["name"] == "edit"
    assert json.loads(calls[0]["arguments"]) == {"line": 3, "new": "4", "tags": "oops", "more": "5"}


def test_a_malformed_call_is_content() -> None:
    text = 'ok <call name="edit"><line>3</call>'
    assert taken_apart(text, [EDIT]) == (text, [])


@pytest.mark.parametrize("arguments", ["{", "[1]", '"a"'])
def test_arguments_that_are_no_object_are_refused(arguments: str) -> None:
    said = {"role": "assistant", "tool_calls": [{"function": {"name": "edit", "arguments": arguments}}]}
    with pytest.raises(ApiError, match="must be a JSON object") as found:
        written(ChatMessage.model_validate(said), "messages.2")
    assert found.value.param == "messages.2.tool_calls.0.function.arguments"


@pytest.mark.parametrize(
    "text", ['one two <call name="edit"></call> three', "<think>a<call</think> b <cal", '<call name="edit"></call>']
)
def test_what_was_shown_stays(text: str) -> None:
    content = taken_apart(text, [EDIT])[0]
    lengths = [content_length(text[:n]) for n in range(len(text) + 1)]
    assert lengths == sorted(lengths)
    assert all(content.startswith(text[:length]) for length in lengths)
