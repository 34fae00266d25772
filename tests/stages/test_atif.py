"""Trajectories as ATIF: ours come back as they were, others as conversations, changed ones as what they say now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_helpers import rolled
from typer.testing import CliRunner

from noria.cli import app
from noria.core.errors import UserError
from noria.core.recipe import load
from noria.core.store import Run
from noria.core.types import Message, Outcome, Task, TokenRecord, Tool, Trajectory, Turn
from noria.stages import atif
from noria.stages.context import save_trajectories
from noria.stages.lines import Conversation, read_file
from noria.tokens.calls import render_call

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
#: Any text, calls and thoughts in it or halves of them.
words = st.text(st.characters(codec="utf-8"), max_size=12)
pieces = st.sampled_from(
    [render_call("get", id="A1"), render_call("put", text="<b>&"), "<think>a\nb</think>", "<call", "</call>", "<think>"]
)
said = st.lists(words | pieces, max_size=4).map("".join)
numbers = st.floats(-1e3, 0, allow_nan=False)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    turns: list[Turn] = []
    at = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(0, 3))):
        end = at + draw(st.integers(0, 3))
        turns.append(Turn(draw(said), draw(words), at, end))
        at = end + draw(st.integers(0, 2))
    mine = draw(st.lists(st.booleans(), min_size=at, max_size=at))
    record = TokenRecord(
        tuple(draw(st.lists(st.integers(0, 10**5), min_size=at, max_size=at))), ("answer",) * at, (0,) * at,
        tuple("student" if own else "expert" for own in mine), tuple(map(int, mine)),
        tuple(draw(numbers) if own else 0.0 for own in mine), tuple(3 if own else -1 for own in mine),
    )  # fmt: skip
    tools = (Tool("get", draw(words), {"id": ("string", draw(words))}),) * draw(st.integers(0, 1))
    task = Task(draw(words), "w", draw(words), draw(words), tools, {"k": [1, None, {"x": 0.5}]}, "heldout")
    outcome = Outcome(draw(st.none() | st.floats(0, 1)), {"a": 1.0}, draw(words))
    return Trajectory(draw(words), task, draw(words), tuple(turns), record, outcome, "done", draw(words), 5, 2)


@given(trajectories())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_what_goes_out_comes_back(trajectory: Trajectory) -> None:
    document = json.loads(json.dumps(atif.document(trajectory), allow_nan=False))
    assert document["schema_version"] == "ATIF-v1.8"
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    assert atif.of_noria(document) == trajectory


@given(trajectories())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_steps_alone_say_the_same_words(trajectory: Trajectory) -> None:
    document = json.loads(json.dumps(atif.document(trajectory)))
    del document["extra"]
    if not document["steps"]:
        return
    messages, _, trained = atif.conversation(document)
    assert len(messages) == len(trained) and sum(trained) == len(trajectory.turns)
    seen = [m["content"] for m in messages if m["role"] == "tool"]
    assert seen == [turn.observation for turn in trajectory.turns if turn.observation]


def test_a_turn_is_told_by_thought_calls_tokens_and_observation() -> None:
    text = "<think>look</think>" + render_call("get", id="A1") + "so"
    step = atif.document(rolled(1.0, [text, "done"]))["steps"][1]
    assert step == {
        "step_id": 2, "source": "agent", "model_name": "student", "message": "so", "reasoning_content": "look",
        "tool_calls": [{"tool_call_id": "call_2_1", "function_name": "get", "arguments": {"id": "A1"}}],
        "observation": {"results": [{"source_call_id": "call_2_1", "content": "seen"}]},
        "metrics": {
            "prompt_tokens": 2, "completion_tokens": 3, "completion_token_ids": [10, 11, 12],
            "logprobs": [-1.0, -1.0, -1.0],
        },
    }  # fmt: skip


def foreign(**more: Any) -> dict[str, Any]:
    call = {"tool_call_id": "c1", "function_name": "ls", "arguments": {"path": "/", "deep": True}}
    result = {"source_call_id": "c1", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]}
    return {
        "schema_version": "ATIF-v1.6", "session_id": "s",
        "agent": {"name": "other", "tool_definitions": [{"type": "function", "function": {"name": "ls"}}]},
        "steps": [
            {"step_id": 1, "source": "user", "message": "list"},
            {"step_id": 2, "source": "agent", "message": "old", "is_copied_context": True},
            {"step_id": 3, "source": "agent", "message": "", "reasoning_content": "hm", "tool_calls": [call],
             "observation": {"results": [result, {"content": "c"}]}},
            {"step_id": 4, "source": "agent", "message": "script", "llm_call_count": 0},
        ],
        **more,
    }  # fmt: skip


def read(tmp_path: Path, document: Any, name: str = "t.json") -> list[Any]:
    (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
    return [line for _, line in read_file(tmp_path / name)]


def test_what_other_tools_write_is_a_conversation(tmp_path: Path) -> None:
    (found,) = read(tmp_path, foreign())
    assert found == Conversation(
        [
            Message("user", "list"), Message("assistant", "old"),
            Message("assistant", "<think>\nhm\n</think>\n\n" + render_call("ls", path="/", deep="true")),
            Message("tool", "a b\nc"), Message("assistant", "script"),
        ],
        [Tool("ls", "", {})], [False, False, True, False, False],
    )  # fmt: skip
    assert read(tmp_path, [foreign(), foreign()]) == [found, found] == read(tmp_path, foreign(), "t.jsonl") * 2


def test_changed_steps_are_believed_and_not_what_they_were_made_from(tmp_path: Path) -> None:
    trajectory = rolled(1.0, ["go"])
    document = atif.document(trajectory)
    assert read(tmp_path, document) == [trajectory]
    document["steps"][-1]["message"] = "stay"
    (found,) = read(tmp_path, document)
    assert isinstance(found, Conversation) and found.messages[-1] == Message("assistant", "stay")
    document["extra"]["noria"]["record"] = 5
    assert read(tmp_path, document) == [found]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema_version": "ATIF-v2.0"}, "schema_version must be ATIF-v1.x: got 'ATIF-v2.0'"),
        ({"steps": []}, "steps must be a list with something in it"),
        ({"steps": [{"source": "robot"}]}, "step 1 must have a source of system, user, agent"),
        ({"steps": [{"source": "user", "message": [{"type": "image"}]}]}, "step 1 must hold text alone"),
        ({"steps": [{"source": "agent", "tool_calls": 3}]}, "step 1 must have tool_calls that are a list"),
        ({"steps": [{"source": "agent", "observation": []}]}, "step 1 must have an observation with a list of results"),
        ({"steps": [{"source": "agent", "tool_calls": [{}]}]}, "tool calls with a name"),
    ],
)
def test_what_is_no_such_document_is_told_by_its_place(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=rf"t\.json must hold .*{told}"):
        read(tmp_path, foreign(**change))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path / "runs", load([RECIPES / "quickstart.toml"]))
    for stage, count in (("round-1/rollout", 3), ("round-10/rollout", 1), ("round-2/resample", 2)):
        with made.artifact(stage) as work:
            save_trajectories(work, [rolled(float(k % 2), ["a/b é"], name=f"{stage}/{k}") for k in range(count)])
    return made


def export(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["export", *arguments])


def test_a_runs_trajectories_are_written_and_read_as_data(run: Run, tmp_path: Path) -> None:
    done = export(str(run.path), "--out", str(tmp_path / "new" / "all.jsonl"))
    assert done.output == f"6 trajectories in {tmp_path}/new/all.jsonl\n", done.exception
    ids = [line.id for _, line in read_file(tmp_path / "new" / "all.jsonl") if isinstance(line, Trajectory)]
    wanted = [("round-1/rollout", 3), ("round-2/resample", 2), ("round-10/rollout", 1)]
    assert ids == [f"{stage}/{k}" for stage, count in wanted for k in range(count)]
    export(str(run.path), "--solved", "--stage", "round-1/rollout", "--out", str(tmp_path / "each"))
    assert sorted(path.name for path in (tmp_path / "each").iterdir()) == [
        "000001-round-1_rollout_1.json", "index.jsonl",
    ]  # fmt: skip
    ((_, found),) = read_file(tmp_path / "each" / "000001-round-1_rollout_1.json")
    assert isinstance(found, Trajectory) and found.solved


def test_what_cannot_be_exported_is_told(run: Run, tmp_path: Path) -> None:
    for arguments, told in (
        (
            ["--stage", "round-3/rollout", "--out", str(tmp_path / "x")],
            "got 'round-3/rollout', expected round-1/rollout",
        ),
        (["--out", str(run.path)], "--out must be new"),
        (["--out", "/proc/nowhere/x.jsonl"], "--out must be a place to write to"),
    ):
        fault = export(str(run.path), *arguments).exception
        assert isinstance(fault, UserError) and told in str(fault)
