"""Rollouts, an update and new weights, end to end: every architecture, each with the engine that suits it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from architectures import NAMES, tiny_model

from noria.core import recipe as recipes
from noria.core.types import Trajectory
from noria.losses import clipped
from noria.stages import rows as rows_of
from noria.stages.bank import ModelBank
from noria.stages.models import resolve_model
from noria.stages.roller import Job
from noria.stages.worker import Load, Loaded, RolloutService, Setup
from noria.tokens.renderer import Renderer
from noria.trainers.local import Config, LocalTrainer, build
from noria.trainers.rows import Row

RECIPE = """
name = "any"
rollout = {{ max_turns = 3, max_new_tokens = 8 }}
env = {{ ledger = {{ type = "ledger" }}, arithmetic = {{ type = "arithmetic" }} }}
phase = {{ rl = {{ signal = "group_mean" }} }}

[student]
model = "{folder}"
engine = {{ type = "{engine}", slots = 4 }}
trainer = {{ type = "local", {trainer} }}
"""
CASES = [(name, "embedded", "lora_rank = 0") for name in NAMES]
CASES += [("qwen3_5_moe", "transformers", "lora_rank = 0"), ("llama", "embedded", "lora_rank = 4")]


def rolled(service: RolloutService, jobs: list[Job]) -> list[Trajectory]:
    service.receive(jobs)
    found: list[Trajectory] = []
    while len(found) < len(jobs):
        found += [message for message in service.work() if not isinstance(message, Loaded)]
    return sorted(found, key=lambda trajectory: trajectory.id)


@pytest.mark.parametrize(("name", "engine", "options"), CASES)
def test_a_model_samples_learns_and_samples_from_what_it_learnt(
    name: str, engine: str, options: str, tiny_folder: Path, tmp_path: Path
) -> None:
    if "lora_rank = 4" in options:
        pytest.importorskip("peft")
    folder = tmp_path / "model"
    model = tiny_model(name)
    model.resize_token_embeddings(Renderer.load(tiny_folder).vocab_size)
    model.save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(tiny_folder / file, folder / file)
    (tmp_path / "any.toml").write_text(RECIPE.format(folder=folder, engine=engine, trainer=options), encoding="utf-8")
    recipe = recipes.load([tmp_path / "any.toml"])
    service = RolloutService(Setup(recipe.resolved_json(), str(resolve_model(str(folder)))))
    tasks = [task for world in service.worlds.values() for task in world.tasks("train", 2, 1)]
    jobs = [Job(f"{i}/{k}", task, 10 * i + k) for i, task in enumerate(tasks) for k in range(2)]
    trainer: LocalTrainer = build(recipe.student.trainer.config(), folder)
    trainer.configure(3e-2, (0.9, 0.95), 0.0, 1.0)
    terms = {"clipped": clipped.build(clipped.Config())}
    for version in (0, 1):
        found = rolled(service, jobs)
        rows = [rows_of.sampled(trajectory, i // 2) for i, trajectory in enumerate(found)]
        assert all(t.outcome.known for t in found)
        assert {v for t in found for v in t.record.versions if v >= 0} == {version}
        for i, (row, logp) in enumerate(zip(rows, trainer.score(rows), strict=True)):
            np.testing.assert_allclose(row.logp_mu[row.mask], logp[row.mask], atol=1e-4)
            row.logp_old, row.advantage = logp, np.full(len(row), 1.0 if i % 2 else -1.0)
        facts = trainer.step(rows, terms, {"clipped": 1.0})
        assert facts["grad_norm"] > 0
        moved = [np.abs(a - row.logp_old).max() for a, row in zip(trainer.score(rows), rows, strict=True)]
        assert max(moved) > 1e-2
        service.receive(Load(trainer.weights(), version + 1))
    service.close()


@pytest.mark.parametrize("name", ["qwen3_moe", "qwen3_5_moe"])
def test_a_teacher_whose_experts_lie_apart_on_disk_is_read_as_it_is_in_memory(name: str, tmp_path: Path) -> None:
    teacher, rows = tiny_model(name, seed=3), [Row.plain([1, 2, 3, 4, 5], [0, 1, 1, 1, 1])]
    teacher.save_pretrained(tmp_path)
    ModelBank(LocalTrainer(Config(), tiny_model(name)), [tmp_path]).score(rows)
    assert np.array_equal(rows[0].logp_teacher, LocalTrainer(Config(), teacher).score(rows)[0])
