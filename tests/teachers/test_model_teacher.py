"""A teacher over HTTP against scripted answers and faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from noria.core.errors import EngineError, UserError
from noria.engines.scripted import Reply, ScriptedServer
from noria.teachers.model import Config, ModelTeacher, build
from noria.tokens.renderer import Renderer

pytest.importorskip("openai")

PATH = "/v1/completions"
ROWS = [[5, 6, 7], [9, 8]]
SOON = {"retry-after-ms": "5"}


def logp(ids: list[int], at: int) -> float:
    """What the scripted teacher thinks of a token."""
    return -0.1 * ids[at] - at


def scored(request: Mapping[str, Any], keep: int | None = None) -> Reply:
    """An answer in vLLM's form; `keep` leaves out what follows."""
    ids = request["prompt"]
    rows: list[Any] = [None]
    for at in range(1, len(ids)):
        others = {str(100 + k): {"logprob": -1.0 - k} for k in range(request["prompt_logprobs"])}
        rows.append({str(ids[at]): {"logprob": logp(ids, at)}, **others})
    return Reply(body=json.dumps({"choices": [{"index": 0, "text": "", "prompt_logprobs": rows[:keep]}]}))


def teacher(server: ScriptedServer, **options: Any) -> ModelTeacher:
    given = {"base_url": server.url, "model": "m", "wait_s": 0.001, "budget_s": 20, "max_unknown": 1, **options}
    return build(Config.model_validate(given))


def run(rule: Callable[[Mapping[str, Any]], Any], **options: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    top = options.pop("top", 0)
    with ScriptedServer(rule, path=PATH) as server:
        found = teacher(server, **options).score(ROWS, top)
    return found, server.requests


def wanted() -> list[Any]:
    return [pytest.approx([0.0, *(logp(ids, at) for at in range(1, len(ids)))]) for ids in ROWS]


def test_ids_go_out_and_log_probabilities_come_back_in_order() -> None:
    found, requests = run(scored, top=2)
    assert [scores.logp for scores in found] == wanted()
    assert found[1].top == ((), ((100, -1.0), (8, pytest.approx(-1.8))))  # the two likeliest of three
    assert sorted(request["prompt"] for request in requests) == sorted(ROWS)
    assert all((r["max_tokens"], r["prompt_logprobs"], r["model"]) == (1, 2, "m") for r in requests)


def test_an_echo_is_read_too() -> None:
    def echo(request: Mapping[str, Any]) -> Reply:
        ids = request["prompt"]
        assert request["echo"] is True and "prompt_logprobs" not in request
        values = [None, *(logp(ids, at) for at in range(1, len(ids))), -9.0]  # the last one was generated
        return Reply(body=json.dumps({"choices": [{"logprobs": {"token_logprobs": values}}]}))

    found, _ = run(echo, ask="echo")
    assert [scores.logp for scores in found] == wanted()
    with pytest.raises(UserError, match="ask must be prompt_logprobs for top-5"):
        run(echo, ask="echo", top=5)


def once(fault: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Each row meets the fault at its first request only."""
    met: set[int] = set()
    lock = threading.Lock()

    def rule(request: Mapping[str, Any]) -> Any:
        with lock:
            first = len(request["prompt"]) not in met
            met.add(len(request["prompt"]))
        return fault(request) if first else scored(request)

    return rule


def saying(entry: Callable[[int], Any]) -> Callable[[Mapping[str, Any]], Reply]:
    """An answer whose entries for the tokens of the prompt are made by `entry`."""

    def rule(request: Mapping[str, Any]) -> Reply:
        rows = [None, *map(entry, request["prompt"][1:])]
        return Reply(body=json.dumps({"choices": [{"prompt_logprobs": rows}]}))

    return rule


FAULTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "busy": lambda _: Reply("slow down", status=429, headers=SOON),
    "broken": lambda _: Reply("oops", status=500),
    "stopping": lambda _: Reply("bye", status=503, headers={"retry-after": "0"}),
    "html": lambda _: Reply(body="<html>"),
    "empty": lambda _: Reply(body='{"choices": []}'),
    "silent": lambda _: Reply(body='{"choices": [{"prompt_logprobs": null}]}'),
    "short": lambda request: scored(request, keep=1),
    "null": saying(lambda token: None),
    "nan": saying(lambda token: {str(token): {"logprob": float("nan")}}),
    "positive": saying(lambda token: {str(token): {"logprob": 0.5}}),
    "wordy": saying(lambda token: {str(token): {"logprob": -0.5}, "the": {"logprob": -2.0}}),
    "too likely": saying(lambda token: {str(token): {"logprob": -0.5}, "3": {"logprob": -0.1}}),
    "foreign": saying(lambda token: {"999": {"logprob": -0.5}}),
    "late": lambda request: Reply(body=scored(request).body, delay_s=30),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_passing_fault_is_repeated(name: str) -> None:
    found, requests = run(once(FAULTS[name]), timeout_s=0.5 if name == "late" else 10)
    assert [scores.logp for scores in found] == wanted()
    assert len(requests) == 4


def test_what_stays_without_a_score_is_unknown_and_no_zero() -> None:
    found, requests = run(
        lambda request: Reply("no", status=500) if len(request["prompt"]) == 2 else scored(request), max_retries=2
    )
    assert found[1] is None and found[0].logp == wanted()[0]
    assert sorted(len(request["prompt"]) for request in requests) == [2, 2, 2, 3]


def test_a_server_that_died_leaves_scores_unknown() -> None:
    with ScriptedServer(scored, path=PATH) as server:
        mine = teacher(server, max_retries=1)
    assert mine.score(ROWS) == [None, None]
    with pytest.raises(EngineError, match="APIConnectionError"):
        teacher(server, max_retries=1, max_unknown=0.4).score(ROWS)


def test_a_wish_beyond_the_budget_ends_it_at_once() -> None:
    found, requests = run(lambda _: Reply("no", status=429, headers={"retry-after": "3600"}))
    assert found == [None, None] and len(requests) == 2


def test_too_many_unknown_stop_the_phase() -> None:
    with pytest.raises(EngineError, match=r"more than max_unknown = 0\.2 of 2 sequences .*status 500"):
        run(lambda _: Reply("no", status=500), max_retries=0, max_unknown=0.2)


@pytest.mark.parametrize(("status", "field"), [(401, "api_key_env"), (404, "base_url and model"), (400, "change ask")])
def test_what_no_repetition_changes_is_told_to_the_user(
    status: int, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret")
    with pytest.raises(UserError, match=field) as found:
        run(lambda _: Reply("not with k-secret", status=status))
    assert "k-secret" not in str(found.value)


def checked(rule: Any, renderer: Renderer, **options: Any) -> None:
    models = options.pop("models", ("m",))
    with ScriptedServer(rule, path=PATH, models=models) as server:
        teacher(server, **options).check(renderer, 100)


def test_a_server_without_log_probabilities_of_prompts_is_refused(renderer: Renderer) -> None:
    with pytest.raises(UserError, match="base_url must be a server that returns.*it has no prompt_logprobs"):
        checked(lambda _: Reply(body='{"choices": [{"text": "hi"}]}'), renderer)
    with pytest.raises(UserError, match="base_url must be a server that returns.*echo of the prompt"):
        checked(lambda _: Reply(body='{"choices": [{"text": "hi"}]}'), renderer, ask="echo")


def test_a_model_that_is_not_there_is_refused(renderer: Renderer) -> None:
    with pytest.raises(UserError, match="model must be one that .* serves: got 'm', expected one of a, b"):
        checked(scored, renderer, models=("b", "a"))


@pytest.mark.parametrize("listed", [True, False])
def test_another_vocabulary_is_refused(renderer: Renderer, listed: bool) -> None:
    def rule(request: Mapping[str, Any]) -> Reply:
        if not isinstance(request["prompt"], str):
            return scored(request)
        ids = [token + 1 for token in renderer.encode(request["prompt"])]
        choice: dict[str, Any] = {"prompt_logprobs": [None, *({str(token): {"logprob": -1.0}} for token in ids[1:])]}
        if listed:
            choice["prompt_token_ids"] = ids
        return Reply(body=json.dumps({"choices": [choice]}))

    with pytest.raises(UserError, match="model must share the student's vocabulary: 'm' reads 'The quick"):
        checked(rule, renderer)


def test_words_that_differ_are_refused_in_an_echo(renderer: Renderer) -> None:
    def rule(request: Mapping[str, Any]) -> Reply:
        n = len(request["prompt"])
        table = {"token_logprobs": [None, *([-1.0] * n)], "tokens": ["x"] * (n + 1)}
        return Reply(body=json.dumps({"choices": [{"logprobs": table}]}))

    with pytest.raises(UserError, match="model must share the student's vocabulary"):
        checked(rule, renderer, ask="echo")
