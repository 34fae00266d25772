"""The chat client against a real server on loopback, through the real `openai` package."""

from __future__ import annotations

import pytest

from noria.core.errors import EngineError, UserError
from noria.core.remote import is_loopback
from noria.core.types import Message
from noria.engines.openai import ChatClient, Config, build
from noria.engines.scripted import Reply, ScriptedServer

pytest.importorskip("openai")

SOON = {"retry-after-ms": "5"}
HELLO = [Message("system", "be brief"), Message("user", "hello")]


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "NORIA_TEST_KEY"):
        monkeypatch.delenv(name, raising=False)


def client(server: ScriptedServer, **options: object) -> ChatClient:
    return build(Config.model_validate({"base_url": server.url, "model": "small", **options}))


def test_a_question_is_sent_whole_and_the_text_comes_back() -> None:
    with ScriptedServer(["hi there"]) as server:
        chat = client(server)
        assert chat.complete(HELLO, 17, 0.25) == "hi there"
        chat.close()
    assert server.requests == [
        {
            "model": "small",
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
            "max_tokens": 17,
            "temperature": 0.25,
        }
    ]


def test_the_key_comes_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORIA_TEST_KEY", "k-123")
    with ScriptedServer(["yes"]) as server:
        client(server, api_key_env="NORIA_TEST_KEY").complete(HELLO, 5, 0.0)
    assert server.headers[0]["authorization"] == "Bearer k-123"


def test_the_limit_can_be_called_otherwise() -> None:
    with ScriptedServer(["yes"]) as server:
        client(server, token_limit_key="max_completion_tokens").complete(HELLO, 5, 1.0)
    assert server.requests[0]["max_completion_tokens"] == 5 and "max_tokens" not in server.requests[0]


def test_a_proxy_of_the_environment_is_not_used_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with ScriptedServer(["yes"]) as server:
        assert client(server).complete(HELLO, 5, 0.0) == "yes"


@pytest.mark.parametrize("status", [429, 500, 503, 408])
def test_a_passing_fault_is_retried(status: int) -> None:
    with ScriptedServer([Reply(status=status, headers=SOON), "at last"]) as server:
        assert client(server, max_retries=1).complete(HELLO, 5, 0.0) == "at last"
    assert len(server.requests) == 2


def test_a_lasting_fault_ends_after_the_retries() -> None:
    with (
        ScriptedServer([Reply("on fire", status=500, headers=SOON)]) as server,
        pytest.raises(EngineError, match=r"status 500 .*on fire"),
    ):
        client(server, max_retries=2).complete(HELLO, 5, 0.0)
    assert len(server.requests) == 3


def test_a_server_slower_than_the_timeout_is_given_up() -> None:
    with ScriptedServer([Reply("too late", delay_s=30)]) as server, pytest.raises(EngineError, match="APITimeoutError"):
        client(server, timeout_s=0.2, max_retries=0).complete(HELLO, 5, 0.0)


def test_a_slow_answer_is_asked_for_again() -> None:
    with ScriptedServer([Reply("too late", delay_s=30), "in time"]) as server:
        assert client(server, timeout_s=0.5, max_retries=8).complete(HELLO, 5, 0.0) == "in time"


def test_no_server_at_all_is_a_fault_of_the_engine() -> None:
    with ScriptedServer(["x"]) as server:
        url = server.url
    with pytest.raises(EngineError, match="APIConnectionError"):
        build(Config(base_url=url, model="m", max_retries=0)).complete(HELLO, 5, 0.0)


@pytest.mark.parametrize(
    "body",
    ["", "<html>busy</html>", "null", '{"choices": []}', '{"choices": [{"text": "old"}]}', '{"choices": [{"m'],
)
def test_an_answer_of_another_shape_is_a_fault_of_the_engine(body: str) -> None:
    kind = "text/html" if body.startswith("<") else "application/json"
    with (
        ScriptedServer([Reply(body=body, headers={"content-type": kind})]) as server,
        pytest.raises(EngineError, match="not a chat completion"),
    ):
        client(server, max_retries=0).complete(HELLO, 5, 0.0)


def test_a_refusal_is_text_and_silence_is_empty() -> None:
    with ScriptedServer([Reply(text=None, refusal="I'd rather not"), Reply(text=None)]) as server:
        chat = client(server)
        assert chat.complete(HELLO, 5, 0.0) == "I'd rather not"
        assert chat.complete(HELLO, 5, 0.0) == ""


@pytest.mark.parametrize(("status", "field"), [(401, "api_key_env"), (404, "base_url and model")])
def test_what_cannot_work_is_told_to_the_user_without_the_key(
    status: int, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret")
    with (
        ScriptedServer([Reply("Incorrect key k-secret", status=status)]) as server,
        pytest.raises(UserError, match=field) as found,
    ):
        client(server).complete(HELLO, 5, 0.0)
    assert "k-secret" not in str(found.value) and len(server.requests) == 1


def test_the_key_is_blotted_out_of_what_a_server_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret")
    with ScriptedServer([Reply("bad request by k-secret", status=400)]) as server, pytest.raises(EngineError) as found:
        client(server).complete(HELLO, 5, 0.0)
    assert "***" in str(found.value) and "k-secret" not in str(found.value)


def test_a_missing_key_names_the_variable_and_a_server_on_this_machine_needs_none() -> None:
    with pytest.raises(UserError, match=r"NORIA_TEST_KEY is not set - run `export NORIA_TEST_KEY="):
        build(Config(base_url="https://models.example/v1", model="m", api_key_env="NORIA_TEST_KEY"))
    build(Config(base_url="http://127.0.0.1:8000/v1", model="m", api_key_env="NORIA_TEST_KEY")).close()


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "openai", None)  # how Python itself marks a module that can't be imported
    with pytest.raises(UserError, match=r"pip install \"noria\[openai\]\""):
        build(Config(base_url="http://127.0.0.1:8000/v1", model="m"))


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.8.9.1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://10.0.0.1/v1", False),
        ("https://localhost.example/v1", False),
    ],
)
def test_which_addresses_are_this_machine(url: str, here: bool) -> None:
    assert is_loopback(url) is here


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://a/v1", "http://", "http://a:b@c/v1", "http://a:999999/v1"]
)
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must"):
        Config(base_url=url, model="m")
