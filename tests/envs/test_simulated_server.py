"""The model-simulated world over HTTP: rules behind a chat server, servers that lie or fail, and `noria serve`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from noria.bases.play import play
from noria.core.errors import SandboxError
from noria.core.types import Task
from noria.engines.scripted import Reply, ScriptedServer
from noria.envs.simulated import Config, build
from noria.envs.simulated.domains import DOMAINS
from noria.envs.simulated.forgeries import forged
from noria.envs.simulated.habits import EXPERTS
from noria.envs.simulated.model import SimulatorConfig
from noria.envs.simulated.recorded import RecordConfig
from noria.envs.simulated.scripted import acted
from noria.envs.simulated.tasks import domain_of, planned
from noria.envs.simulated.world import SimulatedWorld
from noria.tokens.calls import render_call


def asked(request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The card and the question of a request, as a model gets them."""
    messages = request["messages"]
    card = messages[0]["content"]
    return json.loads(card[card.index('{"service"') :]), json.loads(messages[1]["content"])


def by_rules(request: Mapping[str, Any]) -> str:
    """What the rules answer, from nothing but the request."""
    card, question = asked(request)
    action = DOMAINS[card["service"]].by_name[question["call"]["tool"]]
    return acted(question["state"], action, question["call"]["arguments"], 9).text()


def world_at(url: str, record: RecordConfig | None = None, **options: Any) -> SimulatedWorld:
    simulator = SimulatorConfig(base_url=url, model="sim", max_retries=0, **options)
    return build(Config(simulator=simulator, record=record or RecordConfig()), None)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    world = build(Config(levels=("normal", "easy")), None)
    return [*world.tasks("train", 5, 8), *world.tasks("unseen", 1, 8)]


def test_rules_behind_a_server_are_a_simulator(tasks: list[Task]) -> None:
    with ScriptedServer(by_rules) as server:
        world = world_at(server.url)
        for task in tasks[::2]:
            for expert in EXPERTS:
                episode = world.open(task)
                play(episode, world.policy(task, expert, 0), world.max_turns)
                outcome = episode.grade()
                assert outcome.solved, (task.id, expert, outcome.reason)
            before = len(server.requests)
            again, other = world.open(task), world.open(task).fork()
            for sibling in (again, other):
                play(sibling, world.policy(task, EXPERTS[0], 0), world.max_turns)
                assert sibling.grade().solved
            assert len(server.requests) == before  # all of it was recorded
            assert again.talk == other.talk and again.state == other.state
        world.close()
    card, question = asked(server.requests[0])
    assert card["invariants"] == [rule.test for rule in domain_of(tasks[0]).invariants]
    assert {tool["name"] for tool in card["tools"]} == {tool.name for tool in tasks[0].tools}
    assert question["state"] == tasks[0].data["state"] and server.requests[0]["temperature"] == 0


def test_a_bad_answer_is_asked_for_again_with_its_fault(tasks: list[Task]) -> None:
    task = tasks[0]
    read = domain_of(task).reads[0]
    said = iter(["I would say it is fine.", '{"observation": "fine", "state_patch": []}'])
    with ScriptedServer(lambda request: next(said, None) or by_rules(request)) as server:
        world = world_at(server.url)
        told = world.open(task).act(render_call(read)).text
        world.close()
    assert told == build(Config(), None).open(task).act(render_call(read)).text
    assert [len(request["messages"]) for request in server.requests] == [2, 4, 6]
    again = server.requests[2]["messages"]
    assert again[2] == {"role": "assistant", "content": "I would say it is fine."}
    assert again[3]["content"].startswith("That cannot be used: the answer is no JSON")
    assert again[5]["content"].startswith("That cannot be used: the observation must say that")


def lying(task: Task) -> Any:
    """A server that gives every call the patch that would bring the goal about, and says that all is done."""
    plan = planned(task, task.data["state"], 0, 0)

    def lie(request: Mapping[str, Any]) -> str:
        _, question = asked(request)
        patch: list[dict[str, Any]] = []
        state = question["state"]
        for call in plan:
            action = domain_of(task).by_name[call.name]
            kinds = action.tool.parameters
            args = {key: int(v) if kinds[key][0] == "integer" else v for key, v in call.args.items()}
            patch += [change.data() for change in acted(state, action, args, 0).changes]
        return json.dumps({"observation": "All done, the goal is reached.", "state_patch": patch})

    return lie


def test_a_simulator_that_lies_pays_nobody(tasks: list[Task]) -> None:
    """Wrong policies and forged attempts earn no 1 from a server that hands out the goal; nor does it cost them a 0."""
    for task in tasks:
        with ScriptedServer(lying(task)) as server:
            world = world_at(server.url, tries=2)
            for messages in [*forged(task, 0), [render_call(domain_of(task).reads[0]), "done"]]:
                episode, fault = world.open(task), ""
                try:
                    for message in messages:
                        if episode.act(message).done:
                            break
                except SandboxError as lie:
                    fault = str(lie)
                outcome = episode.grade()
                assert not outcome.solved, (task.id, messages)
                assert (outcome.reward is None) == bool(fault)
                if fault:
                    assert outcome.reason == fault and "gave no valid answer" in fault
                    assert episode.fork().grade() == outcome
            world.close()


def test_a_simulator_that_flatters_within_its_card_pays_nobody_either(tasks: list[Task]) -> None:
    """It may choose what the card leaves free, and say more than is true; wrong habits stay wrong."""

    def flatter(request: Mapping[str, Any]) -> str:
        said = json.loads(by_rules(request))
        return json.dumps(said | {"observation": f"{said['observation']}; all you were asked for is done, well done"})

    with ScriptedServer(flatter) as server:
        world = world_at(server.url)
        for task in tasks:
            for habit in ("extra", "misreport", "claim", "quit"):
                episode = world.open(task)
                play(episode, world.policy(task, habit, 0), world.max_turns)
                assert episode.grade().reward == 0.0, (task.id, habit)
            episode = world.open(task)
            play(episode, world.policy(task, EXPERTS[0], 0), world.max_turns)
            assert episode.grade().solved
        world.close()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(status=500), "the simulator did not answer: status 500 from the simulator"),
        (Reply(status=404), r"simulator must name a server that answers: .* says 404 to model 'sim'"),
        (Reply(status=401), r"check simulator\.base_url, simulator\.model and simulator\.api_key_env"),
        (Reply(body="<html>busy</html>"), "the simulator's answer is not a chat completion"),
        (Reply(""), "the simulator's answer is empty"),
        (Reply("late", delay_s=30), "APITimeoutError from the simulator"),
        ("beep", "the simulator gave no valid answer to .* in 3 tries: the answer is no JSON"),
    ],
)
def test_a_server_that_fails_makes_the_outcome_unknown(tasks: list[Task], reply: Reply | str, why: str) -> None:
    with ScriptedServer([reply]) as server:
        world = world_at(server.url, timeout_s=0.5)
        episode = world.open(tasks[0])
        with pytest.raises(SandboxError, match=why):
            episode.act(render_call(domain_of(tasks[0]).reads[0]))
        outcome = episode.grade()
        assert outcome.reward is None and outcome.reason == episode.fault
        with pytest.raises(SandboxError, match=why):  # what is not known stays so
            episode.act("done")
        assert world.open(tasks[0]).act("done").done  # who asks nobody is graded
        world.close()


def test_a_server_that_is_gone_leaves_what_was_recorded(tasks: list[Task], tmp_path: Path) -> None:
    task, record = tasks[2], RecordConfig(path=str(tmp_path / "answers"))
    with ScriptedServer(by_rules) as server:
        world = world_at(server.url, record)
        first = world.open(task)
        heard = play(first, world.policy(task, EXPERTS[0], 0), world.max_turns)
        world.close()
    for later in (world_at(server.url, record), world_at(server.url, RecordConfig(path=record.path, replay=True))):
        episode = later.open(task)
        assert play(episode, later.policy(task, EXPERTS[0], 0), later.max_turns) == heard
        assert episode.grade() == first.grade() and episode.grade().solved
        later.close()
    world = world_at(server.url)
    with pytest.raises(SandboxError, match="the simulator did not answer: APIConnectionError"):
        world.open(task).act(heard[0].content)
    world.close()


def test_the_conversation_is_shown_as_far_as_it_was_asked_for(tasks: list[Task]) -> None:
    reads = [render_call(name) for name in ("list_tickets", "list_agents")]
    task = next(task for task in tasks if task.data["domain"] == "tickets")
    with ScriptedServer(by_rules) as server:
        world = world_at(server.url, history=1)
        episode = world.open(task)
        told = [episode.act(read).text for read in reads]
        episode.fork().act(reads[0])
        world.close()
    before = [asked(request)[1]["before"] for request in server.requests]
    assert before == [[], [["list_tickets()", told[0]]], [["list_agents()", told[1]]]]


@pytest.mark.slow
def test_a_tiny_model_that_babbles_makes_the_outcome_unknown(tasks: list[Task], tmp_path: Path) -> None:
    """`noria serve` with the built-in model, whose positions are stretched to hold the card."""
    from serving import Served

    from noria.stages.models import resolve_model

    folder = shutil.copytree(resolve_model("builtin:tiny"), tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 8192}))
    task = tasks[0]
    with Served(str(folder), "--max-model-len", "8192", "--slots", "1") as served:
        simulator = SimulatorConfig(
            base_url=served.url, model=str(served.facts["model"]), max_output_tokens=16, tries=1, timeout_s=300
        )
        world = build(Config(simulator=simulator), None)
        episode = world.open(task)
        with pytest.raises(SandboxError) as fault:
            episode.act(render_call(domain_of(task).reads[0]))
        world.close()
    outcome = episode.grade()
    assert outcome.reward is None and outcome.reason == str(fault.value)
    assert "gave no valid answer" in outcome.reason and "the answer" in outcome.reason
