"""Sessions as foreign harnesses see them: the real `openai` package, whose calls become token-exact trajectories."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import openai
import pytest
from serving import Served as Process

from noria import cli_export
from noria.core.codec import read_jsonl
from noria.core.types import Task, Tool, Trajectory
from noria.engines.embedded import Config
from noria.server import build as builder
from noria.server.inside import Inside
from noria.server.record import FOLDER, TRAJECTORIES, Terms, collected
from noria.server.schema import ChatRequest
from noria.stages import rows
from noria.stages.datasets import load_rows
from noria.stages.lines import read_file
from noria.tokens.renderer import Renderer, tool_schema
from noria.trainers import local

MODEL = "builtin:tiny"
BASH = Tool("bash", "run a command", {"command": ("string", "what to run")})
SPEC = tool_schema(BASH)
SCRIPT = [
    '<think>look</think><call name="bash"><command>ls -a</command></call>',
    'now this <call name="bash"><command>cat x</command></call><call name="bash"><command>wc x</command></call>',
    "it is done",
]
OPENING = [{"role": "system", "content": "act"}, {"role": "user", "content": "compute 3 + 4"}]


def make(folder: Path | None, model: Path, script: Sequence[str] = (), terms: Terms | None = None) -> Inside:
    config = Config(slots=8, max_tokens=512)
    return Inside(builder.build(MODEL, model, "", config, 64, 5, folder, terms or Terms(), script))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def scripted(folder: Path, tiny_folder: Path) -> Iterator[Inside]:
    inside = make(folder, tiny_folder, SCRIPT)
    yield inside
    inside.close()


@pytest.fixture(scope="module")
def sampled(tiny_folder: Path) -> Iterator[Inside]:
    inside = make(None, tiny_folder)
    yield inside
    inside.close()


@cache
def client(inside: Inside, session: str) -> openai.OpenAI:
    """A client of a session, kept: one that is thrown away closes the streams that are read from it."""
    http = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(
        base_url=inside.base_url(session), api_key="none", max_retries=0, timeout=300, http_client=http
    )


def say(inside: Inside, session: str, messages: Sequence[Any], **options: Any) -> Any:
    given: dict[str, Any] = {"model": MODEL, "messages": list(messages), "max_tokens": 24, **options}
    return client(inside, session).chat.completions.create(**given)


def trajectory(inside: Inside, session: str) -> Trajectory:
    found = inside.ask(lambda: inside.api.sessions.get(session, make=False).recorded.trajectory())
    assert found is not None
    return found


def graph(inside: Inside, session: str) -> Any:
    return inside.ask(lambda: inside.api.sessions.get(session, make=False).graph)


def observation(call: Any, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def ask(url: str, body: Any = None) -> tuple[int, Any]:
    """Status and JSON of a request without the `openai` package."""
    data = None if body is None else json.dumps(body).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data, {"content-type": "application/json"})) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as fault:
        return fault.code, json.load(fault)


def drive(inside: Inside, session: str, back: Any = None, **options: Any) -> list[Any]:
    """A harness with one tool: it plays the script to its end, and `back` makes of a message what it sends back."""
    messages: list[Any] = list(OPENING)
    for _ in SCRIPT:
        answer = say(inside, session, messages, tools=[SPEC], max_tokens=200, **options)
        said = answer.choices[0].message
        messages.append(back(said) if back else said.model_dump())
        messages += [observation(call, f"saw {call.function.arguments}") for call in said.tool_calls or []]
    return messages


@pytest.fixture(scope="module")
def one(scripted: Inside) -> Trajectory:
    """The script played to its end by a client that sends back what it was given."""
    drive(scripted, "one")
    return trajectory(scripted, "one")


def test_a_conversation_with_tools_is_one_branch_of_exact_tokens(
    one: Trajectory, renderer: Renderer, tiny_folder: Path
) -> None:
    found = one
    assert found.branches == () and [turn.message for turn in found.turns] == SCRIPT
    assert found.turns[1].observation == 'saw {"command": "cat x"}\n\nsaw {"command": "wc x"}'
    record = found.record
    two = ["<|tool|>", 'saw {"command": "cat x"}', "<|end|><|tool|>", 'saw {"command": "wc x"}', "<|end|><|assistant|>"]
    parts = [
        renderer.prompt(Task("", "", "act", "compute 3 + 4", (BASH,))).ids,
        renderer.message(SCRIPT[0]),
        renderer.observation('saw {"command": "ls -a"}').ids,
        renderer.message(SCRIPT[1]),
        tuple(token for k, text in enumerate(two) for token in (renderer.encode, renderer.native)[k % 2 == 0](text)),
        renderer.message(SCRIPT[2]),
    ]
    assert record.ids == tuple(token for part in parts for token in part)
    assert record.mask == tuple(k % 2 for k, part in enumerate(parts) for _ in part)
    assert sum(record.mask) == sum(len(renderer.message(text)) for text in SCRIPT)
    assert set(record.roles) == {"user", "observation", "think", "tool_name", "tool_args", "answer"}
    (row,) = rows.by_branch(found, lambda part: rows.sampled(part, 0))
    logp = local.build(local.Config(), tiny_folder).score([row])[0]
    mask = row.mask
    assert logp[mask].tolist() == pytest.approx(row.logp_mu[mask].tolist(), abs=1e-4)


def changed(said: Any) -> dict[str, Any]:
    """The same message as other clients write it."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.function.name,
         "arguments": json.dumps(json.loads(call.function.arguments), indent=3)}}
        for call in said.tool_calls or []
    ]  # fmt: skip
    head, _, rest = (said.content or "").partition("</think>")
    thought = head.removeprefix("<think>") if rest or head.startswith("<think>") else ""
    content = f"  {rest if thought else said.content or ''} \r\n"
    message: dict[str, Any] = {"role": "assistant", "content": content.rstrip() and content}
    if thought:
        message |= {"reasoning_content": thought, "provider_specific_fields": {"refusal": None}}
    return message | ({"tool_calls": calls} if calls else {})


def test_a_message_that_comes_back_in_another_form_is_recognised(scripted: Inside, one: Trajectory) -> None:
    drive(scripted, "same", changed)
    assert trajectory(scripted, "same").record == one.record


def test_an_altered_message_forks_and_counts_no_token_twice(scripted: Inside, one: Trajectory) -> None:
    def altered(said: Any) -> dict[str, Any]:
        return said.model_dump() | {"content": "something else "}

    messages = drive(scripted, "fork")
    again = messages[:-1]
    again[4] = again[4] | {"content": "something else"}
    say(scripted, "fork", again, tools=[SPEC], max_tokens=200)
    found = trajectory(scripted, "fork")
    (before,) = found.branches
    calls = graph(scripted, "fork").calls
    assert [call.parent and call.parent.call for call in calls] == [None, 0, 1, 0]
    assert (before.first, len(before.turns), len(found.turns)) == (0, 3, 4)
    assert before.record == one.record
    shared = len(calls[0].ids) + len(calls[0].answers[0].ids)
    assert found.record.ids[:shared] == before.record.ids[:shared] and not any(found.record.mask[:shared])
    assert found.action_tokens == sum(len(call.answers[0].ids) for call in calls)
    assert [turn.token_end for turn in found.turns[:3]] == [0, 0, 0]
    start, end = found.turns[3].token_start, found.turns[3].token_end
    assert found.record.mask[start:end] == (1,) * (end - start) and set(found.record.turns[start:end]) == {3}
    drive(scripted, "all-altered", altered)
    # the script is said anew where it is not in the prompt
    assert all(call.parent is None for call in graph(scripted, "all-altered").calls)


def test_a_session_ends_with_a_reward_and_its_rows_train(
    scripted: Inside, folder: Path, renderer: Renderer, tmp_path: Path
) -> None:
    drive(scripted, "ends")
    url = f"{scripted.root}/sessions/ends"
    assert ask(f"{url}/finish", {"reward": 2})[0] == 400
    status, told = ask(f"{url}/finish", {"reward": 1, "reason": "tests pass"})
    assert (status, told["calls"], told["branches"], told["finished"], told["reward"]) == (200, 3, 1, True, 1.0)
    assert ask(f"{url}/finish", {"reward": 0})[0] == 409
    assert ask(url) == (200, told)
    assert ask(f"{scripted.root}/sessions/none")[0] == 404
    assert ask(f"{scripted.root}/sessions/none/finish", {})[0] == 404
    status, begun = ask(f"{scripted.root}/sessions", {"id": "named", "task": "do it"})
    assert (status, begun["base_url"]) == (200, scripted.base_url("named"))
    with pytest.raises(openai.ConflictError):
        say(scripted, "ends", OPENING)
    say(scripted, "named-too", OPENING)
    (written,) = read_jsonl(folder / TRAJECTORIES, Trajectory)
    assert written.outcome.reward == 1.0 and written.outcome.reason == "tests pass" and written.stop == "done"
    by_id = {each.id: each for each in collected(folder)}
    assert by_id["ends"] == written and not by_id["named-too"].outcome.known
    cli_export.export(str(folder), tmp_path / "all.jsonl", None, False)
    cli_export.export(str(folder), tmp_path / "solved.jsonl", None, True)
    exported = [line for _, line in read_file(tmp_path / "all.jsonl")]
    assert exported == collected(folder) and [line for _, line in read_file(tmp_path / "solved.jsonl")] == [written]
    found, dropped = load_rows([str(folder / TRAJECTORIES)], renderer, 512, mask_errors=False)
    assert dropped == {} and found[0].mask.tolist() == [bool(m) for m in written.record.mask]


def test_sampled_answers_have_the_trainers_log_probabilities(sampled: Inside, tiny_folder: Path) -> None:
    messages: list[Any] = list(OPENING)
    for step in range(3):
        answer = say(sampled, "fresh", messages, seed=step).choices[0].message
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": f"go on {step}"}]
    found = trajectory(sampled, "fresh")
    made = rows.by_branch(found, lambda part: rows.sampled(part, 0))
    scores = local.build(local.Config(), tiny_folder).score(made)
    assert len(found.branches) == 0 and found.action_tokens > 10
    for row, logp in zip(made, scores, strict=True):
        assert logp[row.mask].tolist() == pytest.approx(row.logp_mu[row.mask].tolist(), abs=1e-4)


def test_what_is_sampled_off_the_policy_is_not_trained(sampled: Inside) -> None:
    say(sampled, "greedy", OPENING, temperature=0)
    say(sampled, "greedy", OPENING, top_p=0.5)
    assert trajectory(sampled, "greedy").action_tokens == 0
    say(sampled, "greedy", OPENING, temperature=1, top_p=1)
    assert trajectory(sampled, "greedy").action_tokens > 0


def test_choices_and_parallel_calls_are_branches(sampled: Inside) -> None:
    say(sampled, "many", OPENING, n=3, seed=1)
    found = trajectory(sampled, "many")
    assert len(found.branches) == 2 and len(found.turns) == 3
    asked = [[*OPENING[:1], {"role": "user", "content": f"compute {k} + 1"}] for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda messages: say(sampled, "parallel", messages), asked))
    seen = sorted(turn.message for turn in trajectory(sampled, "parallel").turns)
    assert seen == sorted(answer.choices[0].message.content for answer in answers)
    assert len(trajectory(sampled, "parallel").branches) == 7


def test_a_stream_is_recorded_as_a_whole_answer_is(sampled: Inside) -> None:
    whole = say(sampled, "whole", OPENING, seed=3, stop=["="]).choices[0].message.content
    parts = say(sampled, "stream", OPENING, seed=3, stop=["="], stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == whole
    assert trajectory(sampled, "stream").record == trajectory(sampled, "whole").record
    more = [*OPENING, {"role": "assistant", "content": text}, {"role": "user", "content": "and"}]
    say(sampled, "stream", more)
    assert len(trajectory(sampled, "stream").branches) == 0


def test_a_client_that_goes_away_leaves_no_call(sampled: Inside) -> None:
    stream = say(sampled, "gone", OPENING, stream=True, max_tokens=400, temperature=2, top_p=1)
    next(iter(stream))
    stream.response.close()
    say(sampled, "gone", OPENING)
    calls = graph(sampled, "gone").calls
    assert len(calls) == 1 and calls[0].on_policy


def test_a_repeated_request_takes_the_place_of_its_lost_answer(sampled: Inside) -> None:
    say(sampled, "again", OPENING)
    say(sampled, "again", OPENING, extra_headers={"x-stainless-retry-count": "1"})
    assert len(graph(sampled, "again").calls) == 2 and len(trajectory(sampled, "again").turns) == 1
    say(sampled, "again", OPENING)
    assert len(trajectory(sampled, "again").turns) == 2


def test_completions_go_on_from_their_ids(sampled: Inside, renderer: Renderer) -> None:
    prompt = list(renderer.prompt(Task("", "", "act", "compute 3 + 4")).ids)
    api = client(sampled, "ids")
    extra = {"return_token_ids": True}
    first = api.completions.create(model=MODEL, prompt=prompt, max_tokens=8, extra_body=extra, seed=1)
    said = first.choices[0].model_extra["token_ids"]
    more = [*prompt, *said, *renderer.observation("7").ids]
    api.completions.create(model=MODEL, prompt=[more, prompt], max_tokens=8, seed=2)
    api.completions.create(model=MODEL, prompt=prompt, max_tokens=0, extra_body={"prompt_logprobs": 0})
    calls = graph(sampled, "ids").calls
    assert [call.parent and call.parent.call for call in calls] == [None, 0, None]
    found = trajectory(sampled, "ids")
    assert found.branches[0].record.ids[: len(more)] == tuple(more)


def test_limits_of_a_session_refuse_with_a_reason(tiny_folder: Path) -> None:
    terms = Terms(is_forced=True, seed=7, max_calls=2, max_tokens=120, max_new_tokens=5)
    inside = make(None, tiny_folder, terms=terms)
    try:
        answer = say(inside, "a", OPENING, temperature=0, max_tokens=None)
        assert answer.usage.completion_tokens <= 5
        with pytest.raises(openai.BadRequestError, match="the session takes 120 tokens"):
            say(inside, "a", [{"role": "user", "content": "1 " * 200}])
        assert inside.ask(lambda: inside.api.sessions.get("a").recorded.stop) == "token_limit"
        with pytest.raises(openai.PermissionDeniedError, match="all its 2 calls"):
            say(inside, "a", OPENING)
        for name in ("b", "c"):
            say(inside, name, OPENING, temperature=0, seed=int(name == "b"))
        assert trajectory(inside, "b").record == trajectory(inside, "c").record
        assert trajectory(inside, "b").action_tokens > 0
        with pytest.raises(openai.NotFoundError, match="named by up to 128"):
            say(inside, ".x", OPENING)
    finally:
        inside.close()


def test_a_server_that_is_killed_loses_no_answered_call(tmp_path: Path, tiny_folder: Path, renderer: Renderer) -> None:
    with Process(MODEL, "--max-model-len", "320", "--record", str(tmp_path)) as served:
        url = served.url.removesuffix("/v1")
        http = openai.DefaultHttpxClient(trust_env=False)
        api = openai.OpenAI(base_url=f"{url}/sessions/k/v1", api_key="none", http_client=http)
        first = api.chat.completions.create(model=MODEL, messages=OPENING, max_tokens=12, seed=1)
        served.process.send_signal(signal.SIGKILL)
        served.process.wait()
    file = tmp_path / FOLDER / "k.jsonl"
    with file.open("a") as torn:
        torn.write('{"call": {"par')
    (before,) = collected(tmp_path)
    assert before.turns[0].message == first.choices[0].message.content and not before.outcome.known
    inside = make(tmp_path, tiny_folder)
    try:
        said = {"role": "assistant", "content": first.choices[0].message.content}
        say(inside, "k", [*OPENING, said, {"role": "user", "content": "on"}])
    finally:
        inside.close()
    (after,) = collected(tmp_path)
    assert after.branches == () and len(after.turns) == 2
    assert after.record.ids[: len(before.record)] == before.record.ids
    assert replace(after.turns[0], observation="") == before.turns[0]


def test_chat_requests_know_what_clients_add() -> None:
    said = {
        "role": "assistant",
        "content": None,
        "function_call": None,
        "refusal": None,
        "annotations": [],
        "audio": None,
    }
    request = ChatRequest.model_validate({"model": "m", "messages": [said]})
    assert request.messages[0].words == ""
