"""What the stage tests share: two worlds that need no sandbox, their recipe, and a small model taught by heart."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from noria.core import recipe as recipes
from noria.core.recipe import Recipe
from noria.core.store import Run
from noria.core.types import Task, Trajectory
from noria.envs import arithmetic, ledger
from noria.losses import ce
from noria.stages import rows as rows_of
from noria.stages.context import Context
from noria.stages.roller import Job, Limits, Roller
from noria.tokens.renderer import Renderer
from noria.trainers.local import Config, LocalTrainer

RECIPE = """
name = "small"
seed = 3
executor = { type = "local", workers = 2 }
student = { model = "%s", engine = { type = "embedded", slots = 8, prefill_rows = 4 } }
teachers = { careful = { type = "scripted", strategy = "careful" } }
rollout = { max_turns = 6, max_new_tokens = 70 }
gate = { tasks = 6 }

[env]
ledger = { type = "ledger", tasks = 6 }
arithmetic = { type = "arithmetic", tasks = 6 }

[phase.experts]
signal = "group_mean"
split_by = "env"
"""


@dataclass(frozen=True)
class Taught:
    """A checkpoint that knows its lessons by heart, and the lessons."""

    folder: Path
    model: Any
    lessons: tuple[Trajectory, ...]


@pytest.fixture(scope="session")
def worlds() -> dict[str, Any]:
    return {
        "ledger": ledger.build(ledger.Config(), None),
        "arithmetic": arithmetic.build(arithmetic.Config(), None),
    }


@pytest.fixture(scope="session")
def tasks(worlds: dict[str, Any]) -> dict[str, list[Task]]:
    """Twelve training tasks of each world."""
    return {name: world.tasks("train", 12, 5) for name, world in worlds.items()}


@pytest.fixture(scope="session")
def scripted(worlds: dict[str, Any], renderer: Renderer) -> Roller:
    """Plays scripted policies; it has no engine."""
    return Roller(worlds, renderer, None, Limits(), 1)


@pytest.fixture(scope="session")
def taught(
    scripted: Roller, tasks: dict[str, list[Task]], tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Taught:
    """Two lessons of the ledger and one of arithmetic, learnt by heart: at low temperature they are recited."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    chosen = [(task, "careful") for task in tasks["ledger"][:2]] + [(tasks["arithmetic"][0], "careful")]
    lessons = tuple(scripted.play(Job(f"lesson/{t.id}", t, 0, s, source="teacher:careful")) for t, s in chosen)
    folder = tmp_path_factory.mktemp("taught")
    torch.manual_seed(0)
    vocab = Renderer.load(tiny_folder).vocab_size
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocab, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, intermediate_size=128, tie_word_embeddings=True, max_position_embeddings=512,
            attn_implementation="sdpa",
        )
    )  # fmt: skip
    trainer = LocalTrainer(Config(line_tokens=512), model)
    trainer.configure(1e-2, (0.9, 0.95), 0.0, 1.0)
    rows = [rows_of.supervised(lesson, mask_errors=False) for lesson in lessons]
    for step in range(60):
        trainer.set_lr(1e-2 * min(1.0, (step + 1) / 10, (60 - step) / 30))
        facts = trainer.step(rows, {"ce": ce.build(ce.Config())}, {"ce": 1.0})
    assert facts["loss/ce"] < 0.05
    model.eval().save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(tiny_folder / name, folder / name)
    return Taught(folder, model, lessons)


@pytest.fixture(scope="session")
def recipe(taught: Taught, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    file = tmp_path_factory.mktemp("recipe") / "small.toml"
    file.write_text(RECIPE % taught.folder, encoding="utf-8")
    return recipes.load([file])


@pytest.fixture
def ctx(recipe: Recipe, worlds: dict[str, Any], renderer: Renderer, taught: Taught, tmp_path: Path) -> Context:
    """A round without workers: for everything that only computes."""
    return Context(recipe, Run.create(tmp_path / "runs", recipe), 1, taught.folder, worlds, renderer, None)  # type: ignore[arg-type]
