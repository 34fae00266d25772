"""The server as clients see it: the real `openai` package against `noria serve` on loopback."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from serving import Served

from noria.core.types import Task
from noria.engines import embedded
from noria.envs import ledger
from noria.tokens.renderer import Renderer, tool_schema
from noria.trainers import local
from noria.trainers.rows import Row

MODEL = "builtin:tiny"
KEY = "k-served"
NEW = 24


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    arguments = ("--max-model-len", "320", "--slots", "8", "--queue", "56", "--api-key-env", "NORIA_TEST_KEY")
    with Served(MODEL, *arguments, key=KEY) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> openai.OpenAI:
    return server.client()


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return ledger.build(ledger.Config(), None).tasks("train", 32, seed=5)


@pytest.fixture(scope="module")
def prompts(renderer: Renderer, tasks: list[Task]) -> list[list[int]]:
    return [list(renderer.prompt(task).ids) for task in tasks]


@pytest.fixture(scope="module")
def greedy(prompts: list[list[int]], renderer: Renderer, tiny_folder: Path) -> list[embedded.Completion]:
    """What the embedded engine says to each prompt by itself."""
    config = embedded.Config(slots=1, max_tokens=320)
    engine = embedded.build(config, tiny_folder, renderer.end_ids, temperature=0)
    out = []
    for i, ids in enumerate(prompts):
        engine.add(i, ids, NEW, seed=0)
        done: list[embedded.Completion] = []
        while not done:
            done = engine.step()
        engine.drop(i)
        out += done
    return out


def complete(client: openai.OpenAI, prompt: Any, **options: Any) -> Any:
    extra = {"return_token_ids": True, **options.pop("extra", {})}
    given = {"max_tokens": NEW, "temperature": 0, **options}
    return client.completions.create(model=MODEL, prompt=prompt, extra_body=extra, **given)


def test_it_says_what_it_serves(server: Served, client: openai.OpenAI) -> None:
    (card,) = client.models.list().data
    assert (card.id, card.model_extra) == (MODEL, {"max_model_len": 320})
    assert client.models.retrieve(MODEL) == card
    assert server.facts["slots"] == 8 and server.facts["port"] == urlsplit(server.url).port


def test_a_greedy_completion_is_the_embedded_engines(
    client: openai.OpenAI, prompts: list[list[int]], greedy: list[embedded.Completion], renderer: Renderer
) -> None:
    answer = complete(client, prompts[0], logprobs=1)
    (choice,) = answer.choices
    assert choice.model_extra["token_ids"] == list(greedy[0].ids)
    assert choice.model_extra["prompt_token_ids"] == prompts[0]
    assert choice.text == renderer.decode(greedy[0].ids)
    assert choice.logprobs.token_logprobs == pytest.approx(list(greedy[0].logp), abs=1e-4)
    assert choice.finish_reason == ("stop" if greedy[0].stop == "end" else "length")
    assert answer.usage.prompt_tokens == len(prompts[0])
    assert answer.usage.completion_tokens == len(greedy[0].ids)


def test_32_clients_at_once_get_what_each_would_alone(
    client: openai.OpenAI, prompts: list[list[int]], greedy: list[embedded.Completion]
) -> None:
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda ids: complete(client, ids).choices[0].model_extra["token_ids"], prompts))
    assert found == [list(completion.ids) for completion in greedy]


def test_log_probabilities_of_a_prompt_are_the_trainers(
    client: openai.OpenAI, prompts: list[list[int]], greedy: list[embedded.Completion], tiny_folder: Path
) -> None:
    rows = [[*ids, *done.ids] for ids, done in zip(prompts[:4], greedy[:4], strict=True)]
    trainer = local.build(local.Config(), tiny_folder)
    wanted = trainer.score([Row.plain(ids, [1] * len(ids)) for ids in rows])
    answer = complete(client, rows, max_tokens=0, extra={"prompt_logprobs": 0})
    for ids, logp, choice in zip(rows, wanted, answer.choices, strict=True):
        first, *others = choice.model_extra["prompt_logprobs"]
        assert first is None and [list(entry) for entry in others] == [[str(token)] for token in ids[1:]]
        found = [entry[str(token)]["logprob"] for entry, token in zip(others, ids[1:], strict=True)]
        assert found == pytest.approx(logp[1:].tolist(), abs=1e-4)
    assert answer.usage.completion_tokens == 0


def test_a_scored_prompt_goes_on_as_an_unscored_one(client: openai.OpenAI, prompts: list[list[int]]) -> None:
    for count in (1, 5):
        options = {"max_tokens": count, "temperature": 1, "seed": 11}
        plain = complete(client, prompts[1], **options).choices[0]
        scored = complete(client, prompts[1], **options, extra={"prompt_logprobs": 3}).choices[0]
        assert scored.model_extra["token_ids"] == plain.model_extra["token_ids"]
    ranked = scored.model_extra["prompt_logprobs"][-1]
    by_rank = sorted(ranked.values(), key=lambda entry: entry["rank"])
    assert 3 <= len(by_rank) <= 4 and [entry["rank"] for entry in by_rank[:3]] == [1, 2, 3]
    assert by_rank == sorted(by_rank, key=lambda entry: -entry["logprob"])


def test_an_echo_repeats_the_prompt_with_its_log_probabilities(client: openai.OpenAI, renderer: Renderer) -> None:
    text = "3 + 4"
    ids = renderer.encode(text)
    (choice,) = complete(client, text, echo=True, logprobs=2, max_tokens=2, extra={"prompt_logprobs": 0}).choices
    assert choice.text.startswith(text) and "".join(choice.logprobs.tokens).startswith(text)
    entries = choice.model_extra["prompt_logprobs"]
    scores = [entry[str(token)]["logprob"] for token, entry in zip(ids[1:], entries[1:], strict=True)]
    assert choice.logprobs.token_logprobs[: len(ids)] == [None, *scores]
    assert len(choice.logprobs.tokens) == len(ids) + 2
    assert choice.logprobs.text_offset[:2] == [0, len(choice.logprobs.tokens[0])]


def test_several_choices_and_prompts_are_numbered_and_seeded(client: openai.OpenAI, prompts: list[list[int]]) -> None:
    def ask() -> list[Any]:
        answer = complete(client, prompts[:2], n=3, temperature=1.5, seed=4, top_p=0.9)
        assert [choice.index for choice in answer.choices] == list(range(6))
        assert answer.model_extra["noria"]["sampling"] == {"temperature": 1.5, "top_p": 0.9}
        assert answer.model_extra["noria"]["logprobs"] == {"temperature": 1.5, "top_p": 1.0}
        return [choice.model_extra["token_ids"] for choice in answer.choices]

    found = ask()
    assert found == ask() and len({tuple(ids) for ids in found}) > 3


def test_a_stream_is_the_answer_in_pieces(client: openai.OpenAI, prompts: list[list[int]]) -> None:
    options = {"temperature": 1, "seed": 9, "n": 2, "logprobs": 1}
    whole = complete(client, prompts[2], **options)
    texts, ids, logp, reasons = ["", ""], [[], []], [[], []], ["", ""]
    usage = None
    for chunk in complete(client, prompts[2], **options, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            ids[choice.index] += choice.model_extra["token_ids"]
            logp[choice.index] += choice.logprobs.token_logprobs
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    for i, choice in enumerate(whole.choices):
        assert (texts[i], ids[i], reasons[i]) == (choice.text, choice.model_extra["token_ids"], choice.finish_reason)
        assert logp[i] == pytest.approx(choice.logprobs.token_logprobs, abs=1e-5)
    assert usage == whole.usage


def test_a_stop_string_ends_the_text_before_it(
    client: openai.OpenAI, prompts: list[list[int]], greedy: list[embedded.Completion], renderer: Renderer
) -> None:
    text = renderer.decode(greedy[3].ids)
    stop = text[3:6]
    (choice,) = complete(client, prompts[3], stop=[stop, "never said"]).choices
    assert choice.text == text[: text.index(stop)] and choice.finish_reason == "stop"


def chat(client: openai.OpenAI, messages: list[Any], **options: Any) -> Any:
    extra = {"return_token_ids": True}
    return client.chat.completions.create(model=MODEL, messages=messages, extra_body=extra, **options)


def test_tool_calls_make_the_round_trip(client: openai.OpenAI, tasks: list[Task], renderer: Renderer) -> None:
    task = tasks[0]
    tools: list[Any] = [tool_schema(tool) for tool in task.tools]
    messages: list[Any] = [{"role": "system", "content": task.system}, {"role": "user", "content": task.prompt}]
    answer = chat(client, messages, tools=tools, n=8, seed=1, max_tokens=NEW * 2)
    assert answer.model_extra["prompt_token_ids"] == list(renderer.prompt(task).ids)
    calling = [choice for choice in answer.choices if choice.finish_reason == "tool_calls"]
    assert len(calling) >= 4
    for choice in calling:
        ids = choice.model_extra["token_ids"]
        if list(renderer.message(renderer.decode(ids))) != ids:
            continue  # an unusual way to spell the same text cannot be told from the text
        assert all(json.loads(call.function.arguments) is not None for call in choice.message.tool_calls)
        said = choice.message.model_dump(exclude_none=True)
        seen = {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "error: closed"}
        again = chat(client, [*messages, said, seen], tools=tools, max_tokens=1)
        wanted = [*renderer.prompt(task).ids, *ids, *renderer.observation("error: closed").ids]
        assert again.model_extra["prompt_token_ids"] == wanted
        return
    raise AssertionError("no call was spelled in the usual way")


def test_a_streamed_chat_is_the_answer_in_pieces(client: openai.OpenAI, tasks: list[Task]) -> None:
    task = tasks[0]
    tools: list[Any] = [tool_schema(tool) for tool in task.tools]
    messages: list[Any] = [{"role": "system", "content": task.system}, {"role": "user", "content": task.prompt}]
    options = {"tools": tools, "n": 8, "seed": 1, "max_tokens": NEW * 2, "logprobs": True, "top_logprobs": 2}
    whole = chat(client, messages, **options)
    contents, calls, reasons = [""] * 8, [[] for _ in range(8)], [""] * 8
    for chunk in chat(client, messages, **options, stream=True):
        for choice in chunk.choices:
            contents[choice.index] += choice.delta.content or ""
            calls[choice.index] += [call.function for call in choice.delta.tool_calls or []]
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    for choice in whole.choices:
        assert contents[choice.index] == (choice.message.content or "")
        found = [(call.name, call.arguments) for call in calls[choice.index]]
        assert found == [(c.function.name, c.function.arguments) for c in choice.message.tool_calls or []]
        assert reasons[choice.index] == choice.finish_reason
        assert all(len(entry.top_logprobs) == 2 for entry in choice.logprobs.content)


@pytest.mark.parametrize(
    ("path", "body", "status", "param", "told"),
    [
        ("completions", {"prompt": "a", "temperature": -1}, 400, "temperature", "greater than or equal to 0"),
        ("completions", {"prompt": "a", "top_p": 0}, 400, "top_p", "greater than 0"),
        ("completions", {"prompt": "a", "foo": 1}, 400, "foo", "unknown field 'foo'"),
        ("completions", {}, 400, "prompt", "must be given"),
        ("completions", {"prompt": ""}, 400, "prompt", "at least one token"),
        ("completions", {"prompt": [5000]}, 400, "prompt", "from 0 to 1023: got 5000"),
        ("completions", {"prompt": [1, "a"]}, 400, "prompt", "a list of either"),
        ("completions", {"prompt": [7] * 400}, 400, "prompt", "takes 320 tokens: got 400"),
        ("completions", {"prompt": "a", "max_tokens": 400}, 400, "prompt", "400 for the answer"),
        ("completions", {"prompt": "a", "max_tokens": 0}, 400, "max_tokens", "echo or prompt_logprobs"),
        ("completions", {"prompt": "a", "logprobs": 21}, 400, "logprobs", "at most 20"),
        ("completions", {"prompt": "a", "prompt_logprobs": 64}, 400, "prompt_logprobs", "at most 20"),
        ("completions", {"prompt": "a", "prompt_logprobs": 1, "stream": True}, 400, "prompt_logprobs", "streamed"),
        ("completions", {"prompt": "a", "presence_penalty": 1}, 400, "presence_penalty", "not served"),
        ("completions", {"prompt": "a", "n": 100}, 400, "n", "at most 64"),
        ("completions", {"prompt": "a", "model": "other"}, 404, "model", "'other' is not served"),
        ("chat/completions", {"messages": []}, 400, "messages", "at least 1"),
        ("chat/completions", {"messages": [{"role": "robot", "content": "a"}]}, 400, "messages.0.role", "'system'"),
        ("chat/completions", {"messages": [{"role": "assistant", "content": "a"}]}, 400, "messages", "must not end"),
        (
            "chat/completions",
            {
                "messages": [
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"a": '}}]},
                    {"role": "tool", "content": "b"},
                ]
            },
            400,
            "messages.1.tool_calls.0.function.arguments",
            "must be a JSON object",
        ),
        ("nothing", {}, 404, None, "Not Found"),
    ],
)
def test_what_cannot_be_served_is_said_in_the_apis_form(
    client: openai.OpenAI, path: str, body: dict[str, Any], status: int, param: str | None, told: str
) -> None:
    with pytest.raises(openai.APIStatusError) as found:
        client.post(f"/{path}", body={"model": MODEL, **body}, cast_to=object)
    error: Any = found.value.body
    assert (found.value.status_code, error["param"]) == (status, param)
    assert told in error["message"] and set(error) == {"message", "type", "param", "code"}


def test_a_wrong_key_is_refused_and_health_needs_none(server: Served) -> None:
    stranger = server.client().with_options(api_key="k-other")
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()
    assert health(server)["status"] == "ok"


def test_a_body_that_is_no_json_is_refused(server: Served) -> None:
    for content, kind, status in ((b'{"model": ', b"application/json", 400), (b"{}", b"text/plain", 415)):
        head = b"content-type: " + kind
        assert raw(server, b"POST /v1/completions", content, head).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_full_queue_sends_clients_away_for_a_while(client: openai.OpenAI, prompts: list[list[int]]) -> None:
    with ThreadPoolExecutor(4) as pool:

        def ask(k: int) -> object:
            try:
                return len(complete(client, prompts[k], n=40, temperature=2, seed=k, max_tokens=60).choices)
            except openai.RateLimitError as fault:
                return fault.response.headers["retry-after"]

        found = list(pool.map(ask, range(4)))
    assert set(found) == {"1", 40}


def test_a_client_that_goes_away_frees_its_slots(server: Served, prompts: list[list[int]]) -> None:
    for stream in (False, True):
        before = health(server)["tokens"]
        body = {"model": MODEL, "prompt": prompts[0], "n": 60, "temperature": 2, "max_tokens": 150, "stream": stream}
        with connection(server) as link:
            link.sendall(request(b"POST /v1/completions", json.dumps(body).encode()))
            wait_until(lambda at=before: health(server)["tokens"] > at + 20)
        wait_until(lambda: health(server)["busy"] == 0)
        assert health(server)["tokens"] - before < 60 * 100


def test_a_signal_lets_what_is_at_work_end_and_refuses_what_is_new(server: Served, prompts: list[list[int]]) -> None:
    client = server.client()
    with ThreadPoolExecutor(1) as pool:
        asked = {"n": 48, "temperature": 2, "max_tokens": 150, "seed": 3}
        last = pool.submit(complete, client, prompts[0], **asked)
        wait_until(lambda: health(server)["busy"] > 0)
        server.process.send_signal(signal.SIGINT)
        wait_until(lambda: health(server)["status"] == "stopping")
        with pytest.raises(openai.InternalServerError) as found:
            complete(client, prompts[1])
        assert found.value.status_code == 503 and found.value.response.headers["retry-after"] == "5"
        assert len(last.result().choices) == 48
    out, errors = server.process.communicate(timeout=120)
    assert (server.process.returncode, out, errors) == (0, "", "")


def connection(server: Served) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=120)


def request(line: bytes, body: bytes = b"", kind: bytes = b"content-type: application/json") -> bytes:
    head = [line + b" HTTP/1.1", b"host: here", b"authorization: Bearer " + KEY.encode(), kind, b"connection: close"]
    return b"\r\n".join([*head, b"content-length: " + str(len(body)).encode(), b"", body])


def raw(server: Served, line: bytes, body: bytes = b"", kind: bytes = b"content-type: application/json") -> bytes:
    with connection(server) as link:
        link.sendall(request(line, body, kind))
        found = b""
        while piece := link.recv(1 << 16):
            found += piece
    return found


def health(server: Served) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(raw(server, b"GET /health").partition(b"\r\n\r\n")[2])
    return found


def wait_until(so: Any, turns: int = 3000) -> None:
    for _ in range(turns):
        if so():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come about")
