"""Phases over rollouts whose context changes on the way: real workers and real steps, supervised and asynchronous."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noria.contexts import window
from noria.core import recipe as recipes
from noria.core.recipe_phases import SftPhase
from noria.core.store import Run
from noria.stages import train
from noria.stages.context import Context, save_trajectories
from noria.stages.jobs import Job, Limits
from noria.stages.roller import Roller
from noria.stages.worker import Pool
from noria.tokens.record import authored
from noria.tokens.renderer import Renderer

RECIPE = """
name = "branches"
seed = 4
executor = {{ type = "local", workers = 1 }}
student = {{ model = "{model}", engine = {{ type = "embedded", slots = 8, prefill_rows = 4 }} }}
rollout = {{ max_turns = 4, max_new_tokens = 40, max_tokens = 400, context = {{ type = "window", keep = 1 }} }}

[teachers]
careful = {{ type = "scripted", strategy = "careful" }}

[env]
ledger = {{ type = "ledger", tasks = 4 }}

[phase]
sft = {{ signal = "curated", loss = {{ ce = {{ aggregate = "sequence" }} }}, steps = 2, tokens_per_step = 600 }}
rl = {{ signal = "rloo", steps = 2, prompts_per_step = 4, rollouts_per_prompt = 6, minibatches = 2, max_refills = 4, lr = 1e-4, temperature = 1.0, max_staleness = 1, use = {{ overlong = {{ max_tokens = 160, buffer_tokens = 150 }} }}, loss = {{ clipped = {{ aggregate = "sequence" }} }}, max_logp_diff = 0.05 }}
"""  # noqa: E501


@pytest.fixture(scope="module")
def ctx(taught: Any, worlds: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    folder = tmp_path_factory.mktemp("branches")
    file = folder / "branches.toml"
    file.write_text(RECIPE.format(model=taught.folder), encoding="utf-8")
    recipe = recipes.load([file])
    pool = Pool(recipe, taught.folder)
    renderer = Renderer.load(taught.folder)
    yield Context(
        recipe, Run.create(folder / "runs", recipe), 1, taught.folder, {"ledger": worlds["ledger"]}, renderer, pool
    )
    pool.close()


def metrics(ctx: Context, name: str) -> list[dict[str, Any]]:
    lines = (ctx.run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row.get("phase") == ctx.name(name)]


@pytest.mark.slow
def test_a_supervised_phase_trains_every_message_of_all_branches_once(ctx: Context, worlds: dict[str, Any]) -> None:
    roller = Roller(worlds, ctx.renderer, None, Limits(max_tokens=2000), 1, (), window.build(window.Config(keep=1)))
    taught = [
        roller.play(Job(f"t/{k}", task, 0, "careful", source="teacher:careful"))
        for k, task in enumerate(ctx.train_tasks()["ledger"])
    ]
    assert all(t.solved and t.branches for t in taught)
    with ctx.run.artifact(ctx.name("rollout"), inputs=[], seed=0) as work:
        save_trajectories(work, taught)
    with ctx.run.artifact(ctx.name("curate"), inputs=[], seed=0) as work:
        save_trajectories(work, [])
    phase = ctx.recipe.phase["sft"]
    assert isinstance(phase, SftPhase)
    rows = train.supervised_rows(ctx, ("ledger",), phase)
    assert len(rows) == sum(1 + len(t.branches) for t in taught)
    said = [len(ctx.renderer.message(turn.message)) for t in taught for turn in t.turns]
    own = [sum(authored(record)) for t in taught for record in (t.record, *(b.record for b in t.branches))]
    assert sum(int(row.mask.sum()) for row in rows) == sum(own) <= sum(said) <= sum(own) + len(said)
    train.make(ctx, "sft", phase, ctx.weak, ("ledger",), {})
    assert [row["step"] for row in metrics(ctx, "sft")] == [1, 2]


@pytest.mark.slow
def test_an_asynchronous_phase_trains_rollouts_in_branches_as_one(ctx: Context) -> None:
    phase = ctx.recipe.phase["rl"]
    train.make(ctx, "rl", phase, ctx.weak, ("ledger",), {})
    folder: Path = ctx.run.folder(ctx.name("rl"))
    assert (folder / "model.safetensors").is_file()
    steps = metrics(ctx, "rl")
    assert [row["step"] for row in steps] == [1, 2]
    for row in steps:
        # Every rollout gives a row at least; with one observation kept most give several.
        useful = round(6 * row["groups"] * (1 - row["reward/frac_zero_std"]))
        assert row["rows"] > useful > 0
        assert row["outcome/unknown_frac"] == 0
    # Branches of a rollout are scored as they were sampled: engine and trainer agree where both have one version.
    scored = [row for row in steps if row["rows"]]
    assert scored and scored[0]["logp_diff/mean"] < 1e-3
