"""A small phase of distillation from a model on a server: its recipe, its context, and the phase run to its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from noria.core.recipe import Recipe, load
from noria.core.store import Run
from noria.envs import ledger
from noria.stages import teach, train
from noria.stages.context import Context
from noria.stages.worker import Pool
from noria.tokens.renderer import Renderer

RECIPE = """
name = "small"
student = { model = "builtin:tiny", engine = { type = "embedded", slots = 8 } }
rollout = { max_turns = 4, max_new_tokens = 60, max_tokens = 320 }
gate = { tasks = 4 }

[executor]
type = "local"
workers = 1

[teachers.own]
type = "model"
base_url = "%s"
model = "builtin:tiny"

[env]
ledger = { type = "ledger", tasks = 4 }

[phase.distill]
signal = "teacher_k1"
route = "own"
steps = 2
prompts_per_step = 6
minibatches = 1
max_staleness = 0
lr = 1e-3
"""


def recipe_at(url: str, folder: Path, *changes: str) -> Recipe:
    """The recipe with its teacher at `url`."""
    file = folder / "small.toml"
    file.write_text(RECIPE % url, encoding="utf-8")
    return load([file], changes)


def context(recipe: Recipe, tiny_folder: Path, renderer: Renderer, folder: Path, pool: Any) -> Context:
    """The first round of a new run."""
    worlds = {"ledger": ledger.build(ledger.Config(), None)}
    return Context(recipe, Run.create(folder / "runs", recipe), 1, tiny_folder, worlds, renderer, pool)


def distilled(
    recipe: Recipe, tiny_folder: Path, renderer: Renderer, folder: Path
) -> tuple[Context, list[dict[str, Any]]]:
    """The phase, run; and its rows of metrics, one for each step."""
    pool = Pool(recipe, tiny_folder)
    try:
        ctx = context(recipe, tiny_folder, renderer, folder, pool)
        teach.check_teachers(ctx)
        train.make(ctx, "distill", recipe.phase["distill"], tiny_folder, ["ledger"], {})
    finally:
        pool.close()
    rows = [json.loads(line) for line in (ctx.run.path / "metrics.jsonl").read_text().splitlines()]
    return ctx, [row for row in rows if row["phase"] == ctx.name("distill")]
