"""The learner in a worker of its own: equal bits, kept forward passes, its faults told, its death survived."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from survival.driver import PHASE
from test_phases_anywhere import WITH_RAY, run_of
from test_survival import tiny_model, weights

from noria.core.errors import EngineError
from noria.core.store import Run
from noria.losses import ce, k1_pg
from noria.stages.context import Context
from noria.stages.learning import Far, FarLearner
from noria.stages.scoring import Scorers
from noria.stages.train import make
from noria.stages.worker import Pool, open_worlds
from noria.tokens.renderer import Renderer
from noria.trainers.local import BadStep, Config, build
from noria.trainers.rows import Row

Anywhere = tuple[str, Pool, Scorers, FarLearner, Path]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> tuple[Path, Path]:
    """A student and its teacher."""
    folder = tmp_path_factory.mktemp("models")
    return tiny_model(folder / "student", tiny_folder, 0), tiny_model(folder / "teacher", tiny_folder, 1)


@pytest.fixture(scope="module", params=["local", pytest.param("ray", marks=[pytest.mark.slow, WITH_RAY])])
def anywhere(
    request: pytest.FixtureRequest, models: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Anywhere]:
    folder = tmp_path_factory.mktemp(request.param)
    recipe = run_of(folder / "first", models, request.param).recipe()
    pool = Pool(recipe, models[0])
    assert not isinstance(recipe.scorers, str)
    scorers = Scorers(recipe.scorers, recipe.student.trainer)
    learner = FarLearner(recipe.scorers, recipe.student.trainer)
    yield request.param, pool, scorers, learner, folder
    learner.close()
    scorers.close()
    pool.close()


def work(run: Run, anywhere: Anywhere, student: Path, phase: str, far: bool = True) -> None:
    """Make one phase, the learner in its worker or in this process."""
    _, pool, scorers, learner, _ = anywhere
    recipe = run.recipe()
    worlds, _ = open_worlds(recipe)
    ctx = Context(recipe, run, 1, student, worlds, Renderer.load(student), pool, scorers, learner if far else None)
    make(ctx, phase, recipe.phase[phase], student, list(worlds), {})


@pytest.mark.parametrize("phase", [PHASE, "distil", "states"])
def test_a_phase_has_the_same_bits_wherever_its_learner_is(
    anywhere: Anywhere, models: tuple[Path, Path], phase: str
) -> None:
    kind, *_, folder = anywhere
    states = (
        '{signal = "teacher", route = "guide", loss = {reverse_kl = {}}, steps = 2, prompts_per_step = 4, '
        "minibatches = 1, lr = 1e-2, max_staleness = 0}"
    )
    far, near = (run_of(folder / f"{phase}-{where}", models, kind, **{"phase.states": states}) for where in ("f", "n"))
    work(far, anywhere, models[0], phase)
    work(near, anywhere, models[0], phase, far=False)
    assert weights(far, phase) == weights(near, phase) != (models[0] / "model.safetensors").read_bytes()


def test_a_step_that_follows_a_score_takes_its_forward_pass_up(anywhere: Anywhere, models: tuple[Path, Path]) -> None:
    """As in one process: the rows are told apart, whatever order they come in, and what changed in them counts."""
    far, near = anywhere[3](), build(Config(), models[0])
    far.open(models[0], None)
    gone = []
    for trainer in (far, near):
        rows = [Row.plain([5, 6, 7, 8 + i, 9], [0, 0, 1, 1, 1], i) for i in range(3)]
        trainer.configure(1e-2, (0.9, 0.99), 0.0, 1.0)
        for row, logp in zip(rows, trainer.score(rows, keep=4096), strict=True):
            row.logp_old, row.advantage = logp, np.arange(5.0)
        rows[0].mask = np.array([False, False, False, True, True])
        facts = trainer.step(rows[::-1], {"k1_pg": k1_pg.build(k1_pg.Config())}, {"k1_pg": 1.0})
        gone.append((facts, trainer.weights(), trainer.score(rows)[1].tolist(), trainer.states(rows)[0].tolist()))
    assert gone[0] == gone[1]


def test_its_faults_are_told_and_its_death_leaves_a_phase_to_go_on(
    anywhere: Anywhere, models: tuple[Path, Path]
) -> None:
    far = anywhere[3]()
    far.open(models[0], None)
    far.configure(1e-2, (0.9, 0.99), 0.0, 1.0)
    bad = Row.plain([5, 6, 7], [0, 1, 1])
    bad.weight[:] = np.nan
    with pytest.raises(BadStep, match="ce"):
        far.step([bad], {"ce": ce.build(ce.Config())}, {"ce": 1.0})
    before = far.weights()
    os.kill(_process(anywhere[0], far), signal.SIGKILL)
    with pytest.raises(EngineError, match="the learner is gone .* resume the run"):
        far.weights()
    far.open(models[0], None)
    assert far.weights() == before


def _process(kind: str, far: Far) -> int:
    executor: Any = far.executor
    found: int = executor.pid(0) if kind == "ray" else executor.workers[0].process.pid
    return found


def test_a_killed_learner_goes_on_from_its_last_step(anywhere: Anywhere, models: tuple[Path, Path]) -> None:
    kind, *_, learner, folder = anywhere
    whole, cut = (run_of(folder / f"killed-{name}", models, kind) for name in ("whole", "cut"))
    work(whole, anywhere, models[0], "distil")
    far = learner()
    send, steps = far.executor.send, 0

    def sent(worker: int, message: Any) -> None:
        nonlocal steps
        steps += message.method == "step"
        send(worker, message)
        if steps == 4 and message.method == "step":  # two mini-batches make one step: this is the second one's last
            os.kill(_process(kind, far), signal.SIGKILL)

    far.executor.send = sent  # type: ignore[method-assign]
    try:
        with pytest.raises(EngineError, match="resume"):
            work(cut, anywhere, models[0], "distil")
    finally:
        far.executor.send = send  # type: ignore[method-assign]
    work(cut, anywhere, models[0], "distil")
    assert weights(cut, "distil") == weights(whole, "distil")
