"""The world `openenv` against a server on loopback: the contract, both transports, and every way a server fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from openenv_server import MOST_GUESSES, GuessServer, secret_of
from world_contract import WorldContract

from noria.cli_worlds import ProvableWorld, opened
from noria.core.errors import SandboxError, UserError
from noria.core.types import Task
from noria.envs.openenv.world import Config, ServedWorld, build
from noria.tokens.calls import render_call

SEEDS = 64


def solutions(folder: Path) -> Path:
    """The guesses of a bisection for every seed."""
    lines = []
    for seed in range(SEEDS):
        low, secret = secret_of(seed)
        tried = [low - 1, secret] if seed % 2 else [secret]
        lines.append(json.dumps({"seed": seed, "actions": [{"number": n, "note": "a"} for n in tried]}))
    file = folder / "solutions.jsonl"
    file.write_text("\n".join(lines))
    return file


@pytest.fixture(scope="module")
def server() -> Iterator[GuessServer]:
    with GuessServer() as running:
        yield running


@pytest.fixture(scope="module")
def world(server: GuessServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvableWorld]:
    file = solutions(tmp_path_factory.mktemp("openenv"))
    with opened("openenv", "process", [f"url={server.url}", f"seeds={SEEDS}", f"solutions={file}"]) as made:
        yield made


class TestOpenEnvContract(WorldContract):
    """The world with a server that behaves."""

    experts = 1


def made(server: GuessServer, **options: object) -> ServedWorld:
    return build(Config.model_validate({"url": server.url, "wait_s": 5.0, "timeout_s": 5.0, **options}), None)


def first_task(world: ServedWorld) -> tuple[Task, int]:
    task = world.tasks("heldout", 1, 0)[0]
    return task, secret_of(task.data["seed"])[1]


def test_a_task_shows_the_first_observation_and_the_typed_action(server: GuessServer) -> None:
    task, secret = first_task(made(server))
    low = secret_of(task.data["seed"])[0]
    assert task.prompt == f"Guess the number.\nA number from {low} to {low + 15}."
    (tool,) = task.tools
    assert tool.name == "step" and tool.description == "One guess."
    assert tool.parameters == {"number": ("integer", "the guess; at least 0"), "note": ("string", "")}
    assert secret not in task.data.values()


def test_splits_of_seeds_are_disjoint_and_cover_all(server: GuessServer) -> None:
    world = made(server, seeds=40)
    train, held = (
        {task.data["seed"] for task in world.tasks(split, n, 0)} for split, n in (("train", 29), ("heldout", 11))
    )
    assert train | held == set(range(40)) and not train & held
    with pytest.raises(UserError, match="at most 29 of train: got 30"):
        world.tasks("train", 30, 0)
    with pytest.raises(UserError, match="split must be one of"):
        world.tasks("unseen", 1, 0)


@pytest.mark.parametrize("transport", ["ws", "http"])
def test_rewards_are_the_servers(server: GuessServer, transport: str) -> None:
    world = made(server, transport=transport)
    task, secret = first_task(world)
    episode = world.open(task)
    seen = episode.act(render_call("step", number=secret + 1))
    assert seen.text == "lower" and not seen.done
    assert episode.grade().reward == 0.0
    assert "refused" in episode.act(render_call("step", number=99999)).text
    assert "must be of type integer" in episode.act(render_call("step", number="two")).text
    both = episode.act(render_call("step", number=secret) + render_call("step", number=secret))
    assert both.done and both.text.splitlines()[1].endswith("error: the episode is over")
    assert episode.grade().reward == 1.0 and episode.grade().parts["steps"] == 2
    episode.close()


def test_an_episode_that_the_server_ends_without_success_is_graded_0(server: GuessServer) -> None:
    world = made(server)
    task, secret = first_task(world)
    episode = world.open(task)
    seen = [episode.act(render_call("step", number=secret + 1)) for _ in range(MOST_GUESSES)]
    assert [each.done for each in seen] == [False] * (MOST_GUESSES - 1) + [True]
    assert episode.grade().reward == 0.0
    episode.close()


def test_sums_and_ranges_of_rewards_are_mapped(server: GuessServer) -> None:
    world = made(server, reward="sum", reward_low=-1.0, reward_high=3.0)
    task, secret = first_task(world)
    episode = world.open(task)
    episode.act(render_call("step", number=secret - 1))
    assert episode.grade().reward == 0.25
    episode.act(render_call("step", number=secret))
    assert episode.grade().reward == 0.5
    episode.close()


def test_words_may_be_the_action(server: GuessServer) -> None:
    world = made(server, say="note")
    task, _ = first_task(world)
    episode = world.open(task)
    with pytest.raises(SandboxError):  # this server drops an action without its number
        episode.act("I guess that it is four.")
    assert episode.grade().reward is None
    episode.close()
    with pytest.raises(UserError, match="say must be an argument of the action: got 'words'"):
        made(server, say="words").tasks("train", 1, 0)


def test_a_server_of_tools_shows_each_as_a_tool() -> None:
    with GuessServer(tools=True) as server:
        world = made(server)
        task, secret = first_task(world)
        assert [tool.name for tool in task.tools] == ["guess"]
        episode = world.open(task)
        assert episode.act(render_call("guess", number=secret)).done
        assert episode.grade().reward == 1.0
        episode.close()


@pytest.mark.parametrize(
    ("fault", "said"),
    [("raise", "it broke"), ("drop", "did not answer"), ("sleep", "did not answer"), ("nan", "must be a number")],
)
def test_a_fault_of_the_server_is_unknown_and_never_0(fault: str, said: str) -> None:
    with GuessServer(fault=fault) as server:
        world = made(server, timeout_s=0.3)
        task, _ = first_task(world)
        episode = world.open(task)
        episode.act(render_call("step", number=5))
        assert episode.grade().reward == 0.0
        with pytest.raises(SandboxError, match=said):
            episode.act(render_call("step", number=-1))
        assert episode.grade().reward is None and said in episode.grade().reason
        episode.close()


def test_a_full_server_is_waited_for_and_then_given_up() -> None:
    with GuessServer(room=1) as server:
        world = made(server, wait_s=0.3)
        task, secret = first_task(world)
        one, two = world.open(task), world.open(task)
        one.act(render_call("step", number=secret + 1))
        with pytest.raises(SandboxError, match="no room"):
            two.act(render_call("step", number=secret))
        assert server.refused >= 2 and two.grade().reward is None
        one.close()
        three = world.open(task)
        assert three.act(render_call("step", number=secret)).done and three.grade().reward == 1.0
        three.close()
        assert server.most_sessions == 1


def test_a_server_that_heeds_no_seed_is_found_out() -> None:
    with GuessServer(unseeded=True) as server:
        world = made(server)
        task, secret = first_task(world)
        episode = world.open(task)
        with pytest.raises(SandboxError, match="does not keep to seeds"):
            episode.act(render_call("step", number=secret))
        assert episode.grade().reward is None
        episode.close()


def test_no_server_is_said_at_once_and_no_session_is_left(server: GuessServer) -> None:
    with pytest.raises(UserError, match="url must lead to an OpenEnv server that answers"):
        build(Config(url="http://127.0.0.1:1", wait_s=0.0), None).tasks("train", 1, 0)
    assert server.sessions == 0


def test_what_is_not_right_in_the_table_is_said(tmp_path: Path) -> None:
    for options, said in (
        ([], "url"),
        (["url=ftp://x"], "must be an http address"),
        (["url=http://h", "reward_low=1"], "reward_low must be below reward_high"),
        (["url=http://h", f"solutions={tmp_path / 'none'}"], "solutions must be a file"),
        (["url=http://h", "rewards=last"], "unknown key 'rewards'"),
    ):
        with pytest.raises(UserError, match=said), opened("openenv", "process", options):
            pass
    (tmp_path / "bad").write_text('{"seed": 1}')
    with pytest.raises(UserError, match="solutions line 1 must be"):
        build(Config(url="http://h", solutions=str(tmp_path / "bad")), None)
