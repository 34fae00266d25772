"""`noria play` and `noria filter`: scripted policies and servers over scaffolds, and what is kept of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from noria.cli import app
from noria.core.codec import read_jsonl, write_jsonl
from noria.core.types import Branch, Outcome, Trajectory
from noria.engines.scripted import Reply, ScriptedServer
from noria.envs import ledger
from noria.harnesses._bash import commands_of
from noria.harnesses._recital import Reciter, next_said
from noria.harnesses.mini_swe_agent import SUBMIT, Config, recited
from noria.stages import atif
from noria.stages.filtering import REASONS, Limits, Report, calls_of, kept, reason_of
from noria.stages.lines import read_file
from noria.stages.roller import Job, Roller
from noria.stages.roller import Limits as Bounds
from noria.tokens.calls import render_call
from noria.tokens.renderer import Renderer


def noria(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def rollouts(path: Path) -> list[Trajectory]:
    return list(read_jsonl(path, Trajectory))


def played(out: Path, *more: str) -> dict[str, Any]:
    answer = noria("play", *more, "--env", "ledger", "--out", str(out), "--json")
    assert answer.exit_code == 0, answer.output
    facts: dict[str, Any] = json.loads(answer.stdout)
    return facts


def test_one_policy_over_several_forms_is_the_same_work_on_the_same_tasks(tmp_path: Path, tiny_folder: Path) -> None:
    out = tmp_path / "r.jsonl"
    facts = played(out, "expert:1", "--scaffold", "xml", "--scaffold", "hermes", "--scaffold", "qwen", "--n", "3")
    assert {name: (row["n"], row["solved"]) for name, row in facts["scaffolds"].items()} == {
        "xml": (3, 3), "hermes": (3, 3), "qwen": (3, 3),
    }  # fmt: skip
    found = rollouts(out)
    by_form = {name: [t for t in found if t.scaffold == name] for name in ("xml", "hermes", "qwen")}
    for other in ("hermes", "qwen"):
        for a, b in zip(by_form["xml"], by_form[other], strict=True):
            assert a.task == b.task and a.seed == b.seed and a.outcome == b.outcome
            assert [turn.message for turn in a.turns] == [turn.message for turn in b.turns]
            assert a.record.ids != b.record.ids and not any(b.record.mask) and a.source == "teacher:careful"
    renderer = Renderer.load(tiny_folder, "hermes")
    first = by_form["hermes"][0]
    said = renderer.tokenizer.decode(first.record.ids[first.turns[0].token_start : first.turns[0].token_end])
    assert '<tool_call>\n{"name": "get", "arguments": {' in said
    prompt = renderer.tokenizer.decode(first.record.ids[: first.turns[0].token_start])
    assert "Tools, and how to call them" in prompt and "<tool_call>" in prompt


def test_a_file_goes_on_and_is_not_mixed(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    options = ("careful", "--scaffold", "xml", "--scaffold", "hermes", "--n", "2", "--k", "2")
    facts = played(whole, *options)
    played(cut, *options)
    state = json.loads((tmp_path / "cut.jsonl.state").read_text())
    lines = cut.read_bytes().splitlines(keepends=True)
    state["state"]["scaffolds"] = {"xml": {"n": 3, "solved": 3, "unknown": 0, "turns": 0, "tokens": 0}}
    state |= {"bytes": [sum(map(len, lines[:3]))], "done": False}
    (tmp_path / "cut.jsonl.state").write_text(json.dumps(state))
    again = played(cut, *options)
    assert cut.read_bytes() == whole.read_bytes() and again["scaffolds"]["hermes"] == facts["scaffolds"]["hermes"]
    other = noria("play", "careful", "--env", "ledger", "--n", "3", "--out", str(cut))
    assert other.exit_code and "differs in" in str(other.exception)


def test_a_server_is_asked_in_the_words_of_the_scaffold(tmp_path: Path, tiny_folder: Path) -> None:
    world = ledger.build(ledger.Config(), None)
    (task,) = world.tasks("train", 1, 0)
    script = world.reference(task)

    hermes = Renderer.load(tiny_folder, "hermes")

    def answer(request: Any) -> str:
        said = sum(message["role"] == "assistant" for message in request["messages"])
        return hermes.written(script[min(said, len(script) - 1)], task.tools)

    with ScriptedServer(answer) as server:
        facts = played(
            tmp_path / "r.jsonl", server.url, "--model", "strong", "--scaffold", "hermes", "--n", "1",
            "rollout.temperature=0.5",
        )  # fmt: skip
        asked = server.requests
    assert facts["scaffolds"]["hermes"]["solved"] == 1
    (found,) = rollouts(tmp_path / "r.jsonl")
    assert found.source == "teacher:strong" and [turn.message for turn in found.turns] == script
    assert "<tool_call>" in asked[0]["messages"][0]["content"] and asked[0]["temperature"] == 0.5
    assert [message["role"] for message in asked[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert "<tool_call>" in asked[1]["messages"][2]["content"]


def test_a_server_that_fails_makes_outcomes_unknown(tmp_path: Path) -> None:
    with ScriptedServer([Reply(status=400)]) as server:
        facts = played(tmp_path / "r.jsonl", server.url, "--model", "strong", "--n", "1")
    assert facts["scaffolds"]["xml"]["unknown"] == 1
    answer = noria("filter", str(tmp_path / "r.jsonl"), "--out", str(tmp_path / "k.jsonl"), "--json")
    assert json.loads(answer.stdout)["dropped"] == {"unknown": 1} and (tmp_path / "k.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["careful", "--scaffold", "xmll"], "did you mean 'xml'"),
        (["careful", "--model", "m"], "--model must go with a URL"),
        (["http://127.0.0.1:1/v1"], "a URL with --model"),
        (["http://127.0.0.1:1/v1", "--model", "m", "--scaffold", "command"], "a policy that is served here"),
        (["careful", "--scaffold", "command"], "must be played by a model"),
        (["nobody"], "POLICY must be a strategy of ledger"),
        (["carefull"], "did you mean 'careful'"),
        (["careful", "--harness", "timeout_s=3"], "--harness must go with"),
        (["careful", "--split", "test"], "--split must be"),
        (["careful", "rollout.max_turn=3"], "max_turn"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    answer = noria("play", *arguments, "--env", "ledger", "--n", "1", "--out", str(tmp_path / "r.jsonl"))
    assert answer.exit_code and said in str(answer.exception), answer.exception
    assert not list(tmp_path.iterdir())


def test_calls_as_commands(tmp_path: Path) -> None:
    two = render_call("view") + render_call("edit", line="2", new="it's")
    cat, line = commands_of(two)
    assert cat == "cat -n app.py" and line.startswith("python3 -c ") and line.endswith("app.py 2 'it'\"'\"'s'")
    assert commands_of(render_call("write", path="a b", text="x\n")) == ["printf %s 'x\n' > 'a b'"]
    assert commands_of(render_call("sh", command="ls | wc")) == ["ls | wc"]
    assert commands_of("Done.") == commands_of(render_call("submit")) == []
    assert recited([render_call("test"), render_call("submit")])[-1] == render_call("bash", command=SUBMIT)
    config = Config(type="mini_swe_agent", python="/bin/python", timeout_s=5).as_command()
    filled = [word.format_map(dict.fromkeys(("base_url", "model", "task_file"), "X")) for word in config.command]
    assert (
        filled[0] == "/bin/python"
        and filled[3:6] == ["X", "X", "X"]
        and "{{task}}" in json.loads(filled[6])["instance"]
    )
    compile(filled[2], "program", "exec")
    assert config.readonly == ()
    (tmp_path / "pyvenv.cfg").touch()
    assert Config(type="mini_swe_agent", python=f"{tmp_path}/bin/python").as_command().readonly == (str(tmp_path),)


def test_scripts_are_said_in_their_order_even_where_they_repeat() -> None:
    script = [(1, 9), (1, 9), (2, 9)]
    assert next_said((5,), script, (9,)) == (1, 9)
    assert next_said((5, 1, 9, 6), script, (9,)) == (1, 9)
    assert next_said((5, 1, 9, 6, 1, 9, 7), script, (9,)) == (2, 9)
    assert next_said((1, 9, 1, 9, 2, 9), script, (9,)) == (9,)
    assert next_said((256, 1), [(1, 0)], (9,)) == (1, 0)  # bytes of neighbours are no token
    engine = Reciter(9)
    engine.script = script
    engine.open(3, (5,), 1, None)  # type: ignore[arg-type]
    made, (done,) = engine.advance()
    assert [token.id for _, token in made] == [1] and done.stop == "length" and engine.advance() == ([], [])
    engine.drop(3)
    assert engine.free == 1


def test_what_is_kept_and_why_the_rest_is_not(renderer: Renderer, tmp_path: Path) -> None:
    world = ledger.build(ledger.Config(), None)
    roller = Roller({"ledger": world}, renderer, None, Bounds(), 1)
    a, b = (roller.play(Job(f"g/{k}", t, 0, "careful")) for k, t in enumerate(world.tasks("train", 2, 0)))
    wrong = replace(a.turns[0], message=render_call("nothing", x="1"))
    extra = replace(a.turns[0], message=render_call("list", deep="1"))
    torn = replace(a.turns[0], message="<call name=")
    every = {
        "unknown": a.with_outcome(Outcome.unknown("sandbox")), "unsolved": a.with_outcome(Outcome(0.5)),
        "failing_tests": a.with_outcome(Outcome(1.0, {"tests": 0.5})), "unfinished": replace(a, stop="turn_limit"),
        "too_many_turns": replace(a, turns=a.turns * 60), "empty": replace(a, turns=()),
        "invalid_calls": replace(a, turns=(wrong, *a.turns[1:])), "hinted": replace(a, hint="look"),
    }  # fmt: skip
    limits = Limits(max_turns=100, max_tokens=len(a.record))
    for reason, each in every.items():
        assert reason_of(each, limits) == reason and reason in REASONS
    long = replace(a, branches=(Branch(renderer_record(a, b), (), -1, "window"),))
    assert reason_of(long, limits) == "too_many_tokens" and reason_of(a, limits) == ""
    assert calls_of(replace(a, turns=(extra, torn)))[1] == 2
    bash = replace(a, turns=(replace(a.turns[0], message=render_call("bash", command="ls")),))
    assert [calls_of(replace(bash, scaffold=name)) for name in ("", "xml", "mini_swe_agent")] == [
        (0, 1),
        (0, 1),
        (1, 0),
    ]
    bare = replace(bash, task=replace(a.task, tools=()))
    assert calls_of(bare) == (1, 0) and calls_of(replace(bare, turns=(torn,))) == (0, 1)
    assert reason_of(every["invalid_calls"], replace(limits, most_invalid=0.5)) == ""

    file, out = tmp_path / "all.jsonl", tmp_path / "kept.jsonl"
    again = replace(a, id="again", scaffold="hermes")
    write_jsonl(file, [a, *every.values(), again, replace(again, id="twice"), b])
    answer = noria("filter", str(file), "--out", str(out), "--max-turns", "100", "--json")
    facts = json.loads(answer.stdout)
    assert facts["read"] == 12 and facts["kept"] == 3 and facts["dropped"] == dict.fromkeys(every, 1) | {"duplicate": 1}
    assert facts["scaffolds"] == {"": {"read": 10, "kept": 2}, "hermes": {"read": 2, "kept": 1}}
    assert rollouts(out) == [a, again, b]
    report = Report()
    assert list(kept([a, b], Limits(), report)) == [a, b] and report.as_json()["dropped"] == {}
    assert "exists" in str(noria("filter", str(file), "--out", str(out)).exception)

    assert noria("export", str(out), "--out", str(tmp_path / "atif.jsonl")).exit_code == 0
    assert [line for _, line in read_file(tmp_path / "atif.jsonl")] == [a, again, b]
    assert atif.document(again)["agent"]["extra"] == {"scaffold": "hermes"}
    assert atif.of_noria(atif.document(again)) == again and "extra" not in atif.document(a)["agent"]
    table = noria("filter", str(file), "--out", str(tmp_path / "t.jsonl")).stdout
    assert "dropped: invalid calls" in table


def renderer_record(a: Trajectory, b: Trajectory) -> Any:
    """A longer record than `a` has."""
    fields = ("ids", "roles", "turns", "sources", "mask", "logp_mu", "versions")
    return type(a.record)(*(getattr(a.record, name) + getattr(b.record, name) for name in fields))
