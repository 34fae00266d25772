"""Phases in odd orders and under odd names: each trains from what it should, or is refused with the fix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_survival import tiny_model

from noria.core import recipe as recipes
from noria.core.errors import UserError
from noria.core.recipe import Recipe
from noria.core.store import Run
from noria.stages import train
from noria.stages.context import Context
from noria.stages.worker import Pool, open_worlds
from noria.tokens.renderer import Renderer

HEAD = """
name = "odd"
seed = 3
executor = {{ type = "local", workers = 1, start = "fork" }}
student = {{ model = "{model}", engine = {{ type = "embedded", slots = 8, max_tokens = 64, prefill_rows = 4 }} }}
rollout = {{ max_turns = 1, max_new_tokens = 10, max_tokens = 64 }}
eval = {{ max_tokens = 64 }}
teachers.slow = {{ type = "ema" }}
teachers.{teacher} = {{ type = "ema" }}
env.coin = {{ type = "survival.coin", tasks = 4 }}
[phase]
"""
COMMON = "steps = 1, prompts_per_step = 2, rollouts_per_prompt = 4, minibatches = 1"
RL, BY_WORLD = f'signal = "group_mean", {COMMON}', 'split_by = "env"'
SHORT, TEACHER = f'signal = "hmpo", {COMMON}', f'signal = "teacher", {COMMON}'

#: Phases as written, and for each model: its label, its artifact and the artifacts that it was made from.
WORK = {
    "efficiency first": ([f"a = {{ {SHORT} }}", f"b = {{ {RL} }}"], [("a", "a", []), ("final", "b", ["a"])]),
    "distillation before the experts": (
        [f'a = {{ {TEACHER}, route = "slow" }}', f"b = {{ {RL}, {BY_WORLD} }}", f'c = {{ {TEACHER}, route = "b" }}'],
        [("a", "a", []), ("expert:coin", "b/coin", ["a"]), ("final", "c", ["a", "b/coin"])],
    ),
    "distillation by world, and from that again": (
        [
            f"a = {{ {RL}, {BY_WORLD} }}", f'b = {{ {TEACHER}, {BY_WORLD}, route = "a" }}',
            f'c = {{ {TEACHER}, route = "b" }}',
        ],
        [("expert:coin", "a/coin", []), ("b:coin", "b/coin", ["a/coin"]), ("final", "c", ["b/coin"])],
    ),
    "experts last, and names of models": (
        [f"final = {{ {RL} }}", f"weak = {{ {SHORT} }}", f"b = {{ {RL}, {BY_WORLD} }}"],
        [("final-model", "final", []), ("final", "weak", ["final"]), ("expert:coin", "b/coin", ["weak"])],
    ),
    "as stale as it is long": ([f"a = {{ {RL}, max_staleness = 1 }}"], [("final", "a", [])]),
}  # fmt: skip


def load(folder: Path, model: object, phases: list[str], teacher: str = "other") -> Recipe:
    file = folder / "odd.toml"
    file.write_text(HEAD.format(model=model, teacher=teacher) + "\n".join(phases) + "\n", encoding="utf-8")
    return recipes.load([file])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"), tiny_folder, 0)


@pytest.fixture(scope="module")
def pool(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    made = Pool(load(tmp_path_factory.mktemp("pool"), model, [f"a = {{ {RL} }}"]), model)
    yield made
    made.close()


@pytest.mark.parametrize("name", WORK)
def test_each_trains_from_what_came_before(name: str, pool: Pool, model: Path, tmp_path: Path) -> None:
    phases, wanted = WORK[name]
    recipe = load(tmp_path, model, phases)
    worlds, _ = open_worlds(recipe)
    ctx = Context(recipe, Run.create(tmp_path / "runs", recipe), 1, model, worlds, Renderer.load(model), pool)
    found = []
    for made, make in train.plan(ctx):
        make()
        artifact = made.folder.relative_to(ctx.run.path).as_posix()
        assert (made.folder / "model.safetensors").is_file()
        inputs = [str(name).removeprefix("round-1/") for name in ctx.run.manifest(artifact)["inputs"]]
        found.append((made.label, artifact.removeprefix("round-1/"), sorted(inputs)))
    assert found == wanted


def test_labels_never_run_out(pool: Pool, model: Path, tmp_path: Path) -> None:
    names = ["weak-model", "weak", "weak-model-again", "sft", "final", "merged", "last"]
    recipe = load(tmp_path, model, [f"{name} = {{ {RL} }}" for name in names])
    worlds, _ = open_worlds(recipe)
    ctx = Context(recipe, Run.create(tmp_path / "runs", recipe), 1, model, worlds, Renderer.load(model), pool)
    labels = [made.label for made, _ in train.plan(ctx)]
    assert len(set(labels)) == len(names) and labels[-1] == "final" and "weak" not in labels


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        (
            [f'd = {{ {TEACHER}, route = "x" }}', f"x = {{ {RL}, {BY_WORLD} }}"],
            ["phase.d.route must name an earlier phase", "move phase.x above it"],
        ),
        ([f'd = {{ {TEACHER}, route = "experts" }}'], ["phase.d.route", "got 'experts'", "expected 'slow', 'other'"]),
        ([f'd = {{ {TEACHER}, route = "d" }}'], ["phase.d.route must name an earlier phase"]),
        (
            [f"x = {{ {RL} }}", f'd = {{ {TEACHER}, route = "x" }}'],
            ["phase.d.route names phase.x, which trains one model", "phase.x.split_by"],
        ),
        ([f"x = {{ {RL} }}", f"x = {{ {SHORT} }}"], ["must be valid TOML: line 13", "two keys have one name"]),
        ([f"[phase.x]\n{RL.replace(', ', chr(10))}"] * 2, ["must be valid TOML: line ", "twice", "rename one"]),
        ([f"x = {{ {RL}, max_staleness = 5 }}"], ["phase.x.max_staleness must not exceed phase.x.steps: got 5 and 1"]),
        ([f"curate = {{ {RL} }}"], ["[phase]", "got 'curate' - rename it"]),
        ([f"evaluate-weak = {{ {RL} }}"], ["[phase]", "got 'evaluate-weak' - rename it"]),
        ([f"x = {{ {RL}, {BY_WORLD} }}", f"x-coin = {{ {RL} }}"], ["[phase]", "got 'x-coin' - rename it"]),
        ([f"x = {{ {RL}, sft_steps = 2 }}"], ["phase.x.sft_steps", 'signal = "curated"', "set sft_steps = 0"]),
        (
            [f"x = {{ {RL.replace('_per_prompt = 4', '_per_prompt = 1')} }}"],
            ["phase.x.rollouts_per_prompt must be at least 2", "set it to 8"],
        ),
        (
            [f"twice = {{ {RL}, {BY_WORLD} }}", f'd = {{ {TEACHER}, route = "twice" }}'],
            ["phase.d.route must name one thing", "'twice' is a phase and a teacher", "rename one"],
        ),
        ([f"x = {{ {SHORT}, {BY_WORLD} }}"], ["phase.x.split_by must not be set", "remove it"]),
        ([f"x = {{ {RL}, difficulty = {{ low = 0.9, high = 0.1 }} }}"], ["phase.x.difficulty", "low must be <= high"]),
        ([f"x = {{ {RL}, betas = [0.9, 1.0] }}"], ["phase.x.betas", "less than 1: got 1.0"]),
    ],
)  # fmt: skip
def test_each_is_refused_with_the_fix(tmp_path: Path, phases: list[str], words: list[str]) -> None:
    with pytest.raises(UserError) as fault:
        load(tmp_path, "builtin:tiny", phases, teacher="twice" if "twice" in phases[0] else "other")
    assert all(word in str(fault.value) for word in words), str(fault.value)
