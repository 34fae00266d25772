"""The world `openenv` against the server of the package `openenv` itself."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from openenv_server import MOST_GUESSES, secret_of
from world_contract import WorldContract

from noria.cli_worlds import ProvableWorld, opened
from noria.core.errors import SandboxError
from noria.envs.openenv.world import Config, build
from noria.tokens.calls import render_call

pytest.importorskip("openenv", reason="the package openenv is not installed: run `make test-ecosystem`")

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

SEEDS = 48


class GuessAction(Action):
    """A guess."""

    number: int


class GuessObservation(Observation):
    """What is said to it."""

    message: str = ""


class GuessEnvironment(Environment[GuessAction, GuessObservation, State]):
    """A number is to be guessed; a negative one breaks it."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.low = self.secret = self.guesses = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **more: Any) -> GuessObservation:
        self.low, self.secret = secret_of(seed or 0)
        self.guesses = 0
        return GuessObservation(message=f"A number from {self.low}.")

    def step(self, action: GuessAction, timeout_s: float | None = None, **more: Any) -> GuessObservation:
        if action.number < 0:
            raise ValueError("it broke")
        self.guesses += 1
        right = action.number == self.secret
        done = right or self.guesses == MOST_GUESSES
        return GuessObservation(message="right" if right else "wrong", reward=float(right), done=done)

    @property
    def state(self) -> State:
        return State(step_count=self.guesses)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    app = create_fastapi_app(GuessEnvironment, GuessAction, GuessObservation, max_concurrent_envs=4)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    for _ in range(6000):
        if server.started:
            break
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def world(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvableWorld]:
    file = tmp_path_factory.mktemp("openenv") / "solutions.jsonl"
    rows = [{"seed": seed, "actions": [{"number": n} for n in secret_of(seed)]} for seed in range(SEEDS)]
    rows = [row | {"actions": row["actions"][-1:]} for row in rows]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    with opened("openenv", "process", [f"url={url}", f"seeds={SEEDS}", f"solutions={file}"]) as made:
        yield made


class TestOpenEnvPackageContract(WorldContract):
    """Their server, their protocol."""

    experts = 1


def test_their_refusals_are_told_and_their_faults_are_unknown(url: str) -> None:
    world = build(Config(url=url, timeout_s=30.0), None)
    task = world.tasks("train", 1, 0)[0]
    assert [(tool.name, dict(tool.parameters)) for tool in task.tools] == [("step", {"number": ("integer", "")})]
    episode = world.open(task)
    assert episode.act(render_call("step", number=0)).text in ("wrong", "right")
    with pytest.raises(SandboxError, match="it broke"):
        episode.act(render_call("step", number=-5))
    assert episode.grade().reward is None
    episode.close()


def test_sessions_are_independent_and_a_full_server_is_waited_for(url: str) -> None:
    world = build(Config(url=url, timeout_s=30.0, wait_s=0.2), None)
    one, two = world.tasks("train", 2, 3)
    held = [world.open(task) for task in (one, two, one, two)]
    for episode in held:
        episode.act(render_call("step", number=100_000))
    assert all(episode.grade().reward == 0.0 for episode in held)
    more = world.open(one)
    with pytest.raises(SandboxError, match="no room"):
        more.act(render_call("step", number=1))
    held[0].act(render_call("step", number=secret_of(one.data["seed"])[1]))
    assert held[0].grade().reward == 1.0 and held[2].grade().reward == 0.0
    for episode in held:
        episode.close()
