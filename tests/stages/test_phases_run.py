"""Every family of signals and losses runs: two real steps of a phase from a recipe, with a real actor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noria.core import recipe as recipes
from noria.core.store import Run
from noria.stages import train
from noria.stages.context import Context
from noria.stages.worker import Pool
from noria.tokens.renderer import Renderer

RECIPE = """
name = "phases"
seed = 4
executor = {{ type = "local", workers = 1 }}
student = {{ model = "{model}", engine = {{ type = "embedded", slots = 8, prefill_rows = 4 }} }}
rollout = {{ max_turns = 4, max_new_tokens = 40, max_tokens = 320, max_unknown = 1.0 }}

[teachers]
careful = {{ type = "scripted", strategy = "careful" }}
frozen = {{ type = "frozen", path = "{model}" }}
average = {{ type = "ema", decay = 0.9, every = 1 }}
wise = {{ type = "privileged" }}

[env]
ledger = {{ type = "ledger", tasks = 4 }}
arithmetic = {{ type = "arithmetic", tasks = 4 }}
"""
ROUTED = 'signal = "teacher", route = "frozen"'
COMMON = "steps = 2, prompts_per_step = 4, minibatches = 2, max_refills = 0, lr = 1e-3, temperature = 0.7"
TWO = f"{COMMON}, rollouts_per_prompt = 2"
#: Phase -> its table in the recipe, and a metric that only its parts report.
PHASES = {
    "cispo": (f'signal = "rloo", {TWO}, loss = {{ cispo = {{}}, entropy = {{ coef = 0.01 }} }}', "entropy"),
    "gspo": (
        f'signal = "group_std", {TWO}, tis_cap = 0, loss = {{ clipped = {{ ratio = "sequence_mean", dual_clip = 3.0, '
        'aggregate = "sequence" } }, use = { icepop = {}, role_credit = { reasoning = 0.5 } }',
        "logp_diff/mean",
    ),
    "shaped": (
        f'signal = "group_mean", {TWO}, loss = {{ clipped = {{}}, kl_ref = {{ coef = 0.01 }} }}, use = {{ '
        'two_stage = { threshold = 0.1 }, overlong = { max_tokens = 60, buffer_tokens = 30 }, '
        'kl_penalty = { coef = 0.01, estimator = "k1" } }, validation = { every = 1, tasks = 2 }',
        "validation/solved",
    ),
    "progress": (
        f'signal = "rloo", {TWO}, use = {{ hmpo = {{}}, pprs = {{ terminal = "progress" }} }}, '
        'task_source = "curriculum", difficulty = { rollouts = 2, low = 0.0, high = 1.0 }',
        "hmpo/correct_frac",
    ),
    "k1": (f'{ROUTED}, {TWO}, loss = {{ k1_pg = {{ kl_discount = 0.9 }} }}', "loss/k1_pg"),
    "divergences": (
        f'signal = "teacher", route = {{ ledger = "average", arithmetic = "frozen" }}, {TWO}, overlap_every = 1, '
        'loss = { forward_kl_topk = { balance = "route" }, reverse_kl = {}, reverse_kl_topk = {}, jsd = {}, '
        "mse_logits = {}, kl_teacher = {}, spod = {} }",
        "distill/overlap/ledger",
    ),
    "weighted": (
        f'signal = "teacher", route = {{ ledger = "average", arithmetic = "frozen" }}, {TWO}, '
        "teacher_weights = { average = 1.0, frozen = 2.0 }, loss = { reverse_kl = {}, k1_pg = {} }",
        "loss/reverse_kl",
    ),
    "joint": (
        f'signal = "joint", route = "frozen", {TWO}, use = {{ '
        'down = { type = "linear", target = "alpha", end = 0.5 }, '
        'stop = { type = "latch", target = "beta", metric = "entropy", below = 0.0 } }',
        "loss/k1_pg",
    ),
    "front": (f'{ROUTED}, {TWO}, use = {{ tcod = {{ direction = "front", every = 1 }} }}', "rows"),
    "back": (f'{ROUTED}, {TWO}, use = {{ tcod = {{ direction = "back", every = 1 }} }}', "rows"),
    "takeover": (
        f'{ROUTED}, {TWO}, loss = {{ k1_pg = {{}}, ce = {{}} }}, '
        "use = { dtdd = { tau = 0.0, window = 4, max_new_tokens = 8 } }",
        "takeover/frac",
    ),
    "dropout": (
        f'{ROUTED}, {TWO}, loss = {{ reverse_kl_topk = {{}} }}, use = {{ dropout = {{}} }}',
        "loss/reverse_kl_topk",
    ),
    "privileged": (
        f'signal = "teacher", route = "wise", {TWO}, loss = {{ forward_kl_topk = {{}}, ce = {{}} }}, '
        "use = { srcl = { per_step = 2, max_new_tokens = 8 } }",
        "rewrite/tried",
    ),
}  # fmt: skip
QUICK = ("joint",)


@pytest.fixture(scope="module")
def ctx(taught: Any, worlds: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    folder = tmp_path_factory.mktemp("phases")
    lines = [f"{name} = {{ {table} }}" for name, (table, _) in PHASES.items()]
    file = folder / "phases.toml"
    file.write_text(RECIPE.format(model=taught.folder) + "\n[phase]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    recipe = recipes.load([file])
    pool = Pool(recipe, taught.folder)
    renderer = Renderer.load(taught.folder)
    yield Context(recipe, Run.create(folder / "runs", recipe), 1, taught.folder, worlds, renderer, pool)
    pool.close()


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in PHASES])
def test_a_phase_of_two_steps_runs_from_its_recipe(name: str, ctx: Context) -> None:
    phase = ctx.recipe.phase[name]
    train.make(ctx, name, phase, ctx.weak, tuple(ctx.recipe.env), {})
    folder: Path = ctx.run.folder(ctx.name(name))
    assert (folder / "model.safetensors").is_file() and (folder / "manifest.json").is_file()
    label = ctx.name(name)
    lines = (ctx.run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row.get("phase") == label]
    assert [row["step"] for row in rows] == [1, 2]
    trained = [row for row in rows if row["rows"]]
    if phase.signal in ("teacher", "joint"):
        assert trained and all(PHASES[name][1] in row for row in trained)
        assert all(row["grad_norm"] >= 0 for row in trained)
    if name == "front":
        assert all(row["response_tokens/mean"] <= 80 for row in rows)


@pytest.mark.slow
def test_tasks_of_one_outcome_are_pruned(ctx: Context) -> None:
    from noria.core.errors import UserError
    from noria.core.recipe_phases import Difficulty, RlPhase
    from noria.stages.teach import RATES, of_fitting_difficulty

    phase = RlPhase(signal="group_mean", temperature=0.05, difficulty=Difficulty(rollouts=2, low=1.0, high=1.0))
    tasks = {"ledger": ctx.train_tasks()["ledger"][:2]}
    with (
        ctx.run.artifact(ctx.name("pruned"), inputs=[], seed=0) as work,
        pytest.raises(UserError, match="must leave tasks"),
    ):
        of_fitting_difficulty(ctx, work, "pruned", phase, ctx.weak, tasks)
    with ctx.run.artifact(ctx.name("kept"), inputs=[], seed=0) as work:
        wide = phase.model_copy(update={"difficulty": Difficulty(rollouts=2, low=0.0, high=1.0)})
        assert of_fitting_difficulty(ctx, work, "kept", wide, ctx.weak, tasks) == tasks
        assert set(json.loads((work.path / RATES).read_text())) == {task.id for task in tasks["ledger"]}
