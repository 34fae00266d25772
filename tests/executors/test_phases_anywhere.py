"""The same short phases under both executors: equal bits in synchronous mode, and nothing lost to a killed worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from survival.driver import PHASE
from test_survival import new_run, tiny_model, weights, whole

from noria.core.codec import read_json_lines
from noria.core.store import Run
from noria.stages.context import Context
from noria.stages.scoring import Scorers
from noria.stages.train import make
from noria.stages.worker import Pool, open_worlds
from noria.tokens.renderer import Renderer

TABLES = {
    "local": '{type = "local", workers = 1, start = "spawn"}',
    "ray": '{type = "ray", workers = 1, num_cpus = 1.0, object_store_mb = 100}',
}
PATIENCE_S = 600
Anywhere = tuple[str, Pool, Scorers, Path]
WITH_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is missing: make test-ray")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> tuple[Path, Path]:
    """A student and its teacher."""
    folder = tmp_path_factory.mktemp("models")
    return tiny_model(folder / "student", tiny_folder, 0), tiny_model(folder / "teacher", tiny_folder, 1)


@pytest.fixture(scope="module", params=["local", pytest.param("ray", marks=[pytest.mark.slow, WITH_RAY])])
def anywhere(
    request: pytest.FixtureRequest, models: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Anywhere]:
    """The kind of executor, rollout workers and teachers on it, and a folder for runs."""
    folder = tmp_path_factory.mktemp(request.param)
    recipe = run_of(folder / "first", models, request.param).recipe()
    pool = Pool(recipe, models[0])
    assert not isinstance(recipe.scorers, str)
    scorers = Scorers(recipe.scorers, recipe.student.trainer)
    yield request.param, pool, scorers, folder
    scorers.close()
    pool.close()


def run_of(folder: Path, models: tuple[Path, Path], kind: str, staleness: int = 0, **more: str) -> Run:
    student, teacher = models
    changes = {
        "executor": TABLES[kind], "scorers": TABLES[kind], "teachers.guide": f'{{type = "frozen", path = "{teacher}"}}',
        "phase.distil": '{signal = "teacher_k1", route = "guide", steps = 3, prompts_per_step = 4, minibatches = 2, '
        f"lr = 1e-2, max_staleness = {staleness}}}", **more,
    }  # fmt: skip
    return new_run(folder, student, staleness, **changes)


def work(run: Run, pool: Pool, scorers: Scorers | None, student: Path, phase: str) -> None:
    """Make one phase in this process."""
    recipe = run.recipe()
    worlds, _ = open_worlds(recipe)
    ctx = Context(recipe, run, 1, student, worlds, Renderer.load(student), pool, scorers)
    make(ctx, phase, recipe.phase[phase], student, list(worlds), {})


#: Weights by phase, of the first executor that made it.
FOUND: dict[str, bytes] = {}


@pytest.mark.parametrize("phase", [PHASE, "distil"])
def test_a_synchronous_phase_has_the_same_bits_anywhere(
    anywhere: Anywhere, models: tuple[Path, Path], phase: str
) -> None:
    kind, pool, scorers, folder = anywhere
    run = run_of(folder / phase, models, kind)
    work(run, pool, scorers, models[0], phase)
    if phase == PHASE:
        whole(run)
    assert weights(run, phase) != (models[0] / "model.safetensors").read_bytes()
    if kind == "local" and phase == "distil":  # the teacher beside the learner says the same
        again = run_of(folder / "beside", models, kind)
        work(again, pool, None, models[0], phase)
        assert weights(again, phase) == weights(run, phase)
    assert FOUND.setdefault(phase, weights(run, phase)) == weights(run, phase)


def test_a_killed_worker_loses_nothing(anywhere: Anywhere, models: tuple[Path, Path]) -> None:
    kind, pool, scorers, folder = anywhere
    run = run_of(folder / "killed", models, kind, staleness=1)
    victim = process_of(kind, pool.executor)
    killer = threading.Thread(target=kill_after, args=(victim, run, 2), daemon=True)
    killer.start()
    work(run, pool, scorers, models[0], PHASE)
    killer.join(PATIENCE_S)
    assert process_of(kind, pool.executor) != victim
    whole(run, limit=1)


def test_a_killed_teacher_loses_nothing(anywhere: Anywhere, models: tuple[Path, Path]) -> None:
    """It is killed while it scores; what it owed is asked of its successor, and the phase ends with the same bits."""
    kind, pool, scorers, folder = anywhere
    run = run_of(folder / "bereft", models, kind)
    executor = scorers().executor
    send, asked = executor.send, 0
    victim = process_of(kind, executor)

    def sent(worker: int, message: Any) -> None:
        nonlocal asked
        asked += 1
        send(worker, message)
        if asked == 2:
            os.kill(victim, signal.SIGKILL)

    executor.send = sent  # type: ignore[method-assign]
    try:
        work(run, pool, scorers, models[0], "distil")
    finally:
        executor.send = send  # type: ignore[method-assign]
    assert process_of(kind, executor) != victim and scorers().deaths == 1
    assert asked == 4, "three steps, and one question again"
    assert FOUND.setdefault("distil", weights(run, "distil")) == weights(run, "distil")


def process_of(kind: str, executor: Any) -> int:
    found: int = executor.pid(0) if kind == "ray" else executor.workers[0].process.pid
    return found


def kill_after(process: int, run: Run, steps: int) -> None:
    """Kill the worker once the learner has told of so many steps, while the actor is at work on the next."""
    deadline = time.monotonic() + PATIENCE_S
    while len(read_json_lines(run.path / "metrics.jsonl")) < steps and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
