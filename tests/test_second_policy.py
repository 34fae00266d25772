"""A phase with a second trained policy: the anchor alone plays and is deployed, both survive a kill, both learn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from survival.driver import Order
from test_survival import PATIENCE_S, Driver, killed, steps, tiny_model, weights

from noria.core import recipe as recipes
from noria.core.errors import UserError
from noria.core.store import Run
from noria.stages import teach
from noria.stages.context import Context
from noria.stages.snapshot import load_state
from noria.tokens.renderer import Renderer

STEPS = 4
RECIPE = """
name = "pair"
seed = 7
executor = {{ type = "local", workers = 1, start = "fork" }}
student = {{ model = "{anchor}", engine = {{ type = "embedded", slots = 8, max_tokens = 64, prefill_rows = 4 }} }}
rollout = {{ max_turns = 1, max_new_tokens = 10, max_tokens = 64 }}
eval = {{ max_tokens = 64 }}
teachers.wise = {{ type = "frozen", path = "{teacher}" }}
env.coin = {{ type = "survival.coin", tasks = 4 }}
[phase.toss]
signal = "teacher"
route = "wise"
loss = {{ mixture_kl = {{ weight = 0.4 }} }}
auxiliary = {{ model = "{second}", lr = 2e-2 }}
steps = {steps}
prompts_per_step = 2
rollouts_per_prompt = 2
max_refills = 0
max_staleness = 0
lr = 1e-2
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> dict[str, Path]:
    names = ("anchor", "teacher", "second", "other")
    return {name: tiny_model(tmp_path_factory.mktemp(name), tiny_folder, i) for i, name in enumerate(names)}


@pytest.fixture(scope="module")
def driver(models: dict[str, Path]) -> Iterator[Driver]:
    made = Driver(models["anchor"])
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(PATIENCE_S) == 0


def new_run(folder: Path, models: dict[str, Path]) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pair.toml").write_text(RECIPE.format(steps=STEPS, **models), encoding="utf-8")
    return Run.create(folder / "runs", recipes.load([folder / "pair.toml"]))


@pytest.fixture(scope="module")
def calm(driver: Driver, models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = new_run(tmp_path_factory.mktemp("calm"), models)
    driver.finish(Order(str(run.path)))
    return run


def test_both_get_gradients_and_the_anchor_alone_samples(calm: Run) -> None:
    told = steps(calm)
    assert [row["step"] for row in told] == list(range(1, STEPS + 1))
    assert all(row["grad_norm"] > 0 and row["auxiliary/grad_norm"] > 0 for row in told)
    # What the engine sampled from is the anchor, step after step: a mixture, or the second policy, is far from it.
    assert all(row["logp_diff/max"] < 1e-4 for row in told)
    assert told[-1]["mixture_kl/divergence"] < told[0]["mixture_kl/divergence"]


def test_both_survive_a_kill_inside_the_phase(
    driver: Driver, calm: Run, models: dict[str, Path], tmp_path: Path
) -> None:
    run = new_run(tmp_path, models)
    killed(driver, Order(str(run.path), die_at=7))  # two steps are saved
    file = run.path / "round-1/toss.partial/state.pt"
    state = load_state(file)
    assert state is not None and state["step"] == 2
    moments = state["trainer"]["auxiliary"]["optimiser"]["state"].values()
    assert all(torch.is_tensor(found["exp_avg"]) and found["step"] == 4 for found in moments)
    assert state["trainer"]["auxiliary"]["weights"] != state["trainer"]["weights"]
    recipe = run.path / "recipe.json"
    text = recipe.read_text()
    recipe.write_text(text.replace(str(models["second"]), str(models["other"])))
    assert "auxiliary.model must be what the phase began with" in driver.fail(Order(str(run.path)))
    recipe.write_text(text)
    driver.finish(Order(str(run.path)))
    assert steps(run) == steps(calm)
    assert weights(run) == weights(calm)


def test_a_second_policy_that_is_not_there_is_told_before_the_round(models: dict[str, Path], tmp_path: Path) -> None:
    run = new_run(tmp_path, {**models, "second": tmp_path / "nowhere"})
    ctx = Context(run.recipe(), run, 1, models["anchor"], {}, Renderer.load(models["anchor"]), None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"phase\.toss\.auxiliary\.model must be .*builtin:tiny, .* or a checkpoint"):
        teach.check_teachers(ctx)
