"""A worker whose engine is a server: rollouts, an update and new weights; faults that are unknown or end the run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty import Answer, Faulty

from noria.core import recipe as recipes
from noria.core.errors import Halted, UserError
from noria.core.recipe import Recipe
from noria.core.types import Trajectory
from noria.engines import embedded
from noria.losses import clipped
from noria.server.build import build as build_server
from noria.server.inside import Inside
from noria.stages import rows as rows_of
from noria.stages.actor import Actor
from noria.stages.roller import Job
from noria.stages.worker import Clear, Cleared, Load, Loaded, Pool, RolloutService, Setup, Stopped, check_going
from noria.trainers.local import build

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def made(root: str, room: Path, *overrides: str) -> Recipe:
    file = room.parent / "served.toml"
    file.write_text(
        f"""
name = "served"
rollout = {{ max_turns = 3, max_new_tokens = 16, max_tokens = 256 }}
eval = {{ max_tokens = 256 }}
env = {{ ledger = {{ type = "ledger" }}, arithmetic = {{ type = "arithmetic" }} }}
phase = {{ rl = {{ signal = "group_mean" }} }}
executor = {{ workers = 1 }}

[student.engine]
type = "served"
base_url = "{root}/v1"
model = "m"
weights = "{room}"
max_tokens = 256
budget_s = 1.2
"""
    )
    return recipes.load([file], overrides)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run") / "weights"


@pytest.fixture(scope="module")
def server(tiny_folder: Path, room: Path) -> Iterator[Inside]:
    config = embedded.Config(slots=8, max_tokens=256, prefill_rows=8)
    inside = Inside(build_server("m", tiny_folder, "", config, 56, 20, updates=room))
    yield inside
    inside.close()


@pytest.fixture
def faulty(server: Inside) -> Iterator[Faulty]:
    with Faulty(server.root) as between:
        yield between


@pytest.fixture
def service(faulty: Faulty, room: Path, tiny_folder: Path) -> Iterator[RolloutService]:
    running = RolloutService(Setup(made(faulty.root, room).resolved_json(), str(tiny_folder)))
    yield running
    running.close()
    assert [path.name for path in room.iterdir()] == ["lock"]


def told(service: RolloutService, n: int) -> list[Any]:
    out: list[Any] = []
    deadline = time.monotonic() + 60
    while len(out) < n and time.monotonic() < deadline:
        out += service.work()
    return out


def jobs_of(service: RolloutService) -> list[Job]:
    tasks = [task for world in service.worlds.values() for task in world.tasks("train", 1, 1)]
    return [Job(f"g{i}/{k}", task, 10 * i + k) for i, task in enumerate(tasks) for k in range(2)]


def test_it_samples_learns_and_samples_from_what_it_learnt(service: RolloutService, tiny_folder: Path) -> None:
    jobs = jobs_of(service)
    trainer = build(recipes.of_world("ledger").student.trainer.config(), tiny_folder)
    trainer.configure(3e-3, (0.9, 0.95), 0.0, 1.0)
    terms = {"clipped": clipped.build(clipped.Config())}
    seen: list[Any] = []
    for version in (0, 1):
        service.receive(Load(trainer.weights(), version, 0.8))
        service.receive(jobs)
        loaded, *found = told(service, 1 + len(jobs))
        assert isinstance(loaded, Loaded) and loaded.version == version
        found = sorted(found, key=lambda trajectory: trajectory.id)
        assert all(t.outcome.known for t in found)
        assert {v for t in found for v in t.record.versions if v >= 0} == {version}
        rows = [rows_of.sampled(trajectory, i // 2) for i, trajectory in enumerate(found)]
        for i, (row, logp) in enumerate(zip(rows, trainer.score(rows, 0.8), strict=True)):
            np.testing.assert_allclose(row.logp_mu[row.mask], logp[row.mask], atol=1e-4)
            row.logp_old, row.advantage = logp, np.full(len(row), 1.0 if i % 2 else -1.0)
        seen.append((rows, [row.logp_old for row in rows]))
        assert trainer.step(rows, terms, {"clipped": 1.0}, 0.8)["grad_norm"] > 0
    rows, before = seen[0]
    assert max(np.abs(a - b).max() for a, b in zip(before, trainer.score(rows, 0.8), strict=True)) > 1e-2


def test_a_message_without_an_answer_is_an_unknown_outcome_and_the_others_go_on(
    service: RolloutService, faulty: Faulty, tiny_folder: Path
) -> None:
    service.receive(Load((tiny_folder / "model.safetensors").read_bytes(), 1))
    assert isinstance(told(service, 1)[0], Loaded)
    jobs = jobs_of(service)
    lost = jobs[1].seed
    faulty.before = lambda path, asked: Answer(500, {"error": "ill"}) if asked and asked.get("seed") == lost else None
    service.receive(jobs)
    found = {t.id: t for t in told(service, len(jobs))}
    for job in jobs:
        outcome = found[job.id].outcome
        assert outcome.known == (job is not jobs[1])
    assert found[jobs[1].id].stop == "engine" and "status 500" in found[jobs[1].id].outcome.reason
    assert found[jobs[1].id].outcome.reward is None


def test_a_server_that_is_gone_stops_the_worker(service: RolloutService, faulty: Faulty, tiny_folder: Path) -> None:
    service.receive(Load((tiny_folder / "model.safetensors").read_bytes(), 1))
    assert isinstance(told(service, 1)[0], Loaded)
    faulty.before = lambda path, asked: Answer(drops=True)
    service.receive(jobs_of(service))
    (stopped,) = told(service, 1)
    assert isinstance(stopped, Stopped) and not stopped.is_users and "answered nobody" in stopped.reason
    assert not service.busy()
    with pytest.raises(Halted, match="then resume the run"):
        check_going(stopped)
    with pytest.raises(Halted):
        Actor._hear(Actor(None, None, 1, 0), stopped)  # type: ignore[arg-type]
    service.receive(Load((tiny_folder / "model.safetensors").read_bytes(), 2))
    (stopped,) = told(service, 1)
    assert isinstance(stopped, Stopped) and "did not take its weights" in stopped.reason
    faulty.before = lambda path, asked: None
    service.receive(Load((tiny_folder / "model.safetensors").read_bytes(), 2))
    service.receive(Clear())
    assert [type(message) for message in told(service, 2)] == [Loaded, Cleared]


class Line:
    """An executor whose one worker is right here."""

    size = 1

    def __init__(self, service: RolloutService) -> None:
        self.service, self.restarts = service, 0

    def send(self, worker: int, message: Any) -> None:
        self.service.receive(message)

    def receive(self, worker: int, timeout_s: float | None) -> list[Any]:
        return told(self.service, 1)

    def ready(self, workers: list[int]) -> list[int]:
        return workers

    def restart(self, worker: int) -> None:
        self.restarts += 1

    def close(self) -> None:
        self.service.close()


def test_the_pool_ends_with_the_servers_fault_and_starts_no_worker_anew(
    service: RolloutService, faulty: Faulty, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(service)
    pool = object.__new__(Pool)
    pool.executor, pool.retries, pool._weights = line, 2, None  # type: ignore[assignment]
    weights = (tiny_folder / "model.safetensors").read_bytes()
    faulty.before = lambda path, asked: Answer(401, {})
    with pytest.raises(UserError, match="api_key_env must name a variable with a valid key"):
        pool.load(weights)
    faulty.before = lambda path, asked: None
    pool.load(weights)
    jobs = jobs_of(service)
    assert [t.id for t in pool.run(jobs) if isinstance(t, Trajectory)] == [job.id for job in jobs]
    faulty.before = lambda path, asked: Answer(drops=True)
    with pytest.raises(Halted, match="answered nobody"):
        pool.run(jobs)
    assert line.restarts == 0


def test_a_recipe_gives_a_server_one_worker_and_its_own_limits(room: Path) -> None:
    with pytest.raises(UserError, match=r"executor\.workers must be 1 with student\.engine\.type = 'served'.*got 2"):
        made("http://127.0.0.1:8000", room, "executor={type='local'}", "executor.workers=2")
    with pytest.raises(UserError, match=r"rollout\.max_tokens must not exceed .*: got 300 and 256"):
        made("http://127.0.0.1:8000", room, "rollout.max_tokens=300")
    with pytest.raises(UserError, match=r"student\.engine\.top_p"):
        made("http://127.0.0.1:8000", room, "student.engine.top_p=0.9")
    with pytest.raises(UserError, match=r"student\.engine\.weights"):
        recipes.load([RECIPES / "quickstart.toml"], [
            "student.engine={type='served', base_url='http://127.0.0.1:8000/v1', model='m'}", "executor.workers=1",
        ])  # fmt: skip


ROW = {
    "split": "train", "package": "p", "function": "f", "kind": "k", "line": 2, "app": "def f(a):\n    return a - 1\n",
    "gold": "def f(a):\n    return a + 1\n", "wrong": [[2, "return a"]], "calls": [[["1"], "2"]], "spare": [],
}  # fmt: skip


def test_the_overlays_lay_a_real_model_and_a_server_over_the_code_agents_recipe(tmp_path: Path) -> None:
    tasks = tmp_path / "functions.jsonl"
    rows = (ROW, {**ROW, "split": "heldout", "app": "def f(a):\n    return a * 1\n"})
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    overlays = [RECIPES / "overlays" / f"{name}.toml" for name in ("served", "code-smollm2")]
    files = [RECIPES / "functions.toml", *overlays]
    found = recipes.load(files, [f"env.repair.path='{tasks}'"])
    engine, code = found.student.engine.config(), found.phase["code"]
    assert found.student.model == "models/smollm2" and found.student.trainer.config().lora_rank > 0
    assert engine.type == "served" and engine.max_tokens >= found.rollout.max_tokens == found.eval.max_tokens
    assert code.steps <= 3 and code.prompts_per_step * code.rollouts_per_prompt <= 8  # type: ignore[union-attr]
    assert code.tis_cap == 2.0 and code.max_staleness == 1  # type: ignore[union-attr]
