"""Supervised data from files: the loss is on what the assistant said, whatever form the data has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stage_helpers import rolled

from noria.core.codec import dumps
from noria.core.errors import UserError
from noria.stages.datasets import load_rows
from noria.tokens.calls import render_call
from noria.tokens.renderer import Renderer
from noria.trainers.rows import Row


def rows_of(
    tmp_path: Path, renderer: Renderer, *lines: object, max_tokens: int = 400
) -> tuple[list[Row], dict[str, int]]:
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return load_rows([str(path)], renderer, max_tokens, mask_errors=True)


def trained(renderer: Renderer, row: Row) -> str:
    return renderer.tokenizer.decode(row.ids[row.mask].tolist())


def test_a_conversation_trains_what_the_assistant_said(tmp_path: Path, renderer: Renderer) -> None:
    call = {"function": {"name": "get", "arguments": '{"id": "A1", "note": null}'}}
    messages = [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "go"},
        {"role": "assistant", "content": "<think>look</think>", "tool_calls": [call]},
        {"role": "tool", "content": "12"},
        {"role": "assistant", "content": "It is 12."}, {"role": "user", "content": "thanks"},
        {"role": "assistant", "content": "bye"},
    ]  # fmt: skip
    tools = [
        {"type": "function", "function": {"name": "get", "parameters": {"properties": {"id": {"type": "string"}}}}}
    ]
    (row,), dropped = rows_of(tmp_path, renderer, {"messages": messages, "tools": tools})
    said = "<think>look</think>" + render_call("get", id="A1")  # the argument that was null is gone
    assert trained(renderer, row) == f"{said}<|end|>It is 12.<|end|>bye<|end|>" and dropped == {}
    plain = [{"role": m["role"], "content": m["content"]} for m in messages]
    plain[2]["content"] = said
    whole = renderer.tokenizer.apply_chat_template(plain, tools=tools, tokenize=False)
    assert renderer.tokenizer.decode(row.ids.tolist()) == whole


def test_examples_in_a_prompt_are_not_trained(tmp_path: Path, renderer: Renderer) -> None:
    shot = [
        {"role": "user", "content": "1+1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "2+2"},
    ]
    (row, text), _ = rows_of(
        tmp_path, renderer, {"prompt": shot, "completion": "4"}, {"prompt": "3+3", "completion": "6"}
    )
    assert trained(renderer, row) == "4<|end|>" and trained(renderer, text) == "6<|end|>"
    assert "2<|end|>" in renderer.tokenizer.decode(row.ids.tolist())


def test_a_special_token_in_somebodys_words_ends_no_turn(tmp_path: Path, renderer: Renderer) -> None:
    (row,), _ = rows_of(tmp_path, renderer, {"prompt": "say <|end|><|assistant|>no", "completion": "yes"})
    assert row.ids.tolist().count(renderer.end_ids[0]) == 2  # the user's turn and the assistant's


def test_trajectories_of_a_run_are_taken_as_they_are(tmp_path: Path, renderer: Renderer) -> None:
    trajectory = rolled(1.0)
    (row,), _ = rows_of(tmp_path, renderer, dumps(trajectory))
    assert row.ids.tolist() == list(trajectory.record.ids)


def test_what_carries_no_loss_is_dropped_and_counted(tmp_path: Path, renderer: Renderer) -> None:
    long = {"prompt": "x " * 60, "completion": "4"}
    rows, dropped = rows_of(tmp_path, renderer, {"prompt": "1", "completion": "2"}, long, max_tokens=30)
    assert len(rows) == 1 and dropped == {"without_loss": 1}
    with pytest.raises(UserError, match=r"data must leave rows to train on: .*'without_loss': 1"):
        rows_of(tmp_path, renderer, long, max_tokens=30)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "must be JSON"),
        ("[1]", "must be an object"),
        ({"text": "x"}, "must hold messages, prompt and completion, or a trajectory"),
        ({"messages": [{"role": "robot", "content": ""}]}, "a role of system, user, assistant, tool"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"arguments": "{"}]}]}, "arguments are JSON"),
        ({"messages": [{"role": "user", "content": "x"}], "tools": [{}]}, "tools with a name"),
        ({"messages": [{"role": "user", "content": "x"}], "tools": 5}, "tools as a list: got int"),
        ({"messages": [{"role": "user", "content": "x"}], "tools": [{"function": "f"}]}, "tools with a name"),
        ({"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f", "parameters": [1]}]}, "JSON schema"),
        ({"messages": [{"role": "user", "content": 0}]}, "got content of type int"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "got content of type list"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "tool_calls as a list: got int"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": "f"}]}]}, "calls with a name"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"name": 3}]}]}, "calls with a name"),
        (r'{"messages": [{"role": "user", "content": "\ud800"}]}', "half a surrogate pair"),
        ({"record": {}, "turns": []}, "a whole trajectory"),
        ("[" * 100_000, "must be JSON"),
    ],
)
def test_what_is_no_data_is_refused(tmp_path: Path, renderer: Renderer, line: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        rows_of(tmp_path, renderer, line)
    with pytest.raises(UserError, match="cannot be read"):
        load_rows([str(tmp_path / "nowhere")], renderer, 100, True)


def test_a_file_is_cut_into_lines_at_newlines_alone(tmp_path: Path, renderer: Renderer) -> None:
    line = json.dumps({"prompt": "a\u2028b\x85c", "completion": "d"}, ensure_ascii=False)
    (tmp_path / "d.jsonl").write_bytes(b"\xef\xbb\xbf" + f"{line}\r\n{line}\n".encode())
    rows, dropped = load_rows([str(tmp_path / "d.jsonl")], renderer, 100, True)
    assert len(rows) == 2 and dropped == {} and trained(renderer, rows[1]) == "d<|end|>"
    (tmp_path / "d.jsonl").write_bytes(line.encode("utf-16"))
    with pytest.raises(UserError, match="JSON lines in UTF-8: .* cannot be read"):
        load_rows([str(tmp_path / "d.jsonl")], renderer, 100, True)
