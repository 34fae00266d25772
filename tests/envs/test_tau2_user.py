"""The user of `tau2`: the stand-in's turns, a model's, and the calculator of the desk; none needs the package."""

from __future__ import annotations

from typing import Any

import pytest

from noria.core.errors import PolicyError, SandboxError
from noria.core.types import Message, Tool
from noria.engines.scripted import ScriptedServer
from noria.envs.tau2.calculator import calculated
from noria.envs.tau2.user import (
    AGREES,
    DID,
    MOST_AGREES,
    MOST_DONE,
    STOP,
    Hands,
    ModelConfig,
    ModelUser,
    ScriptedUser,
    first_person,
    is_end,
    requests_in,
)

SCENARIO = {
    "reason_for_call": "You want to cancel your trip.",
    "known_info": "You are Ann.",
    "task_instructions": "",
    "unknown_info": None,
}


def talk(*said: str) -> list[Message]:
    return [Message("user" if number % 2 == 0 else "assistant", text) for number, text in enumerate(said)]


def test_the_stand_in_tells_what_it_knows_once_then_agrees_then_is_content() -> None:
    user = ScriptedUser()
    first = user.first(SCENARIO)
    assert first == "I want to cancel my trip."
    assert user.answer(SCENARIO, talk(first, "Who are you?"), Hands()) == "I am Ann."
    assert user.answer(SCENARIO, talk(first, "Who?", "I am Ann.", "Shall I cancel?"), Hands()) == AGREES
    assert user.answer(SCENARIO, talk(first, "Who?", "I am Ann.", "It is cancelled."), Hands()) == STOP
    asked = [first, "Who?", "I am Ann.", *["Sure?", AGREES] * MOST_AGREES, "Sure?"]
    assert user.answer(SCENARIO, talk(*asked), Hands()) == STOP


PHONE = (
    Tool("toggle_data", "", {}),
    Tool("toggle_data_saver", "", {}),
    Tool("grant", "", {"app": ("string", ""), "many": ("integer", "optional")}),
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Please toggle_data.", [("toggle_data", {})]),
        ("toggle_data_saver(), then toggle_data()", [("toggle_data_saver", {}), ("toggle_data", {})]),
        ("Do grant(app='a)b', many=3) now.", [("grant", {"app": "a)b", "many": 3})]),
        ("`grant(app=open('x'))`", [("grant", {})]),
        ("grant(app=" + "(" * 3000, [("grant", {})]),
        ("untoggle_data my.toggle_data toggle_datax", []),
        ("toggle_data " * 50, [("toggle_data", {})] * MOST_DONE),
        ("", []),
    ],
)
def test_what_is_asked_for_by_name_is_read_as_literals_alone(text: str, wanted: list[tuple[str, Any]]) -> None:
    assert [(name, dict(given)) for name, given in requests_in(text, PHONE)] == wanted


def test_the_stand_in_does_what_it_is_asked_and_forgets_none_of_what_it_has_to_tell() -> None:
    done: list[tuple[str, Any]] = []

    def do(name: str, given: Any) -> str:
        done.append((name, given))
        if name == "grant":
            raise PolicyError("no such app")
        return "Data is on."

    hands, user = Hands(PHONE, do), ScriptedUser()
    first = user.first(SCENARIO)
    said = user.answer(SCENARIO, talk(first, "Please toggle_data and grant(app='x')."), hands)
    assert said == f"{DID}\ntoggle_data: Data is on.\ngrant cannot be done: no such app"
    assert done == [("toggle_data", {}), ("grant", {"app": "x"})]
    assert user.answer(SCENARIO, talk(first, "Please.", said, "Who are you?"), hands) == "I am Ann."
    assert user.answer(SCENARIO, talk(first, "toggle_data"), Hands()) == "I am Ann."


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("You are sure that you're right.", "I am sure that I'm right."),
        ("Ask the agent to tell you yourself.", "Ask the agent to tell me myself."),
        ("your youth", "my youth"),
        (f"When it is done you write {STOP}.", "When it is done I write ."),
    ],
)
def test_what_somebody_is_told_is_said_in_the_first_person(told: str, said: str) -> None:
    assert first_person(told) == said


@pytest.mark.parametrize(("text", "value"), [("1 + 2 * 3", "7.0"), ("-(10 / 4)", "-2.5"), ("0.1+0.2", "0.3")])
def test_the_calculator_adds_up(text: str, value: str) -> None:
    assert calculated(text) == value


@pytest.mark.parametrize("text", ["", "1/0", "9**9**9", "9 ** 9", "a", "__import__('os')", "1" * 100, "(1", "()"])
def test_the_calculator_refuses_all_else(text: str) -> None:
    with pytest.raises(PolicyError, match="expression"):
        calculated(text)


def test_a_model_plays_the_user_with_the_roles_turned() -> None:
    with ScriptedServer([f" Fine. {STOP}"]) as server:
        config = ModelConfig(base_url=server.url, model="m")
        said = ModelUser(config).answer(SCENARIO, talk("I want to cancel my trip.", "Who are you?"), Hands())
    assert said == f"Fine. {STOP}" and is_end(said)
    system, *rest = server.requests[0]["messages"]
    assert "known_info: You are Ann." in system["content"] and "unknown_info" not in system["content"]
    assert [(m["role"], m["content"]) for m in rest] == [
        ("assistant", "I want to cancel my trip."), ("user", "Who are you?"),
    ]  # fmt: skip


def test_a_model_that_is_not_there_is_a_fault_of_the_environment() -> None:
    config = ModelConfig(base_url="http://127.0.0.1:1/v1", model="m", max_retries=0, timeout_s=1.0)
    with pytest.raises(SandboxError, match="did not answer"):
        ModelUser(config).answer(SCENARIO, talk("a", "b"), Hands())
