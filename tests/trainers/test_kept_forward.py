"""A forward pass kept from scoring serves the step that follows, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from test_local_trainer import CE, ONE, gradients, some_rows, trainer_of

from noria.losses import clipped, reverse_kl, states
from noria.trainers.local import LocalTrainer
from noria.trainers.rows import Row, Scored, trained_positions


def counted(trainer: LocalTrainer) -> list[int]:
    """Grows by one with each forward pass."""
    passes: list[int] = []
    plain = trainer._states

    def noted(micro: Any) -> torch.Tensor:
        passes.append(len(micro.places))
        return plain(micro)

    trainer._states = noted  # type: ignore[method-assign]
    return passes


def test_a_step_of_one_micro_batch_runs_its_forward_pass_once(random_model: Any) -> None:
    terms = {"clipped": clipped.build(clipped.Config())}
    plain, kept = trainer_of(random_model), trainer_of(random_model)
    passes, found = counted(kept), []
    for trainer, keep in ((plain, 0), (kept, 400)):
        rows = some_rows(1)
        for row, logp in zip(rows, trainer.score(rows, 0.9, keep=keep), strict=True):
            row.logp_old = logp
        facts = trainer.step(rows[::-1], terms, {"clipped": 1.0}, 0.9, 400)
        found.append((facts, gradients(trainer)))
    assert passes == [7]
    assert found[1][0] == pytest.approx(found[0][0], abs=1e-6)
    assert all(torch.allclose(found[1][1][name], grad, atol=1e-6) for name, grad in found[0][1].items())


def grow(rows: list[Row], trainer: LocalTrainer) -> None:
    rows[0].mask = rows[0].mask | (np.arange(len(rows[0])) > 0)


def speak(rows: list[Row], trainer: LocalTrainer) -> None:
    rows[0].ids = rows[0].ids[::-1].copy()


def leave(rows: list[Row], trainer: LocalTrainer) -> None:
    rows.pop()


def load(rows: list[Row], trainer: LocalTrainer) -> None:
    trainer.load_weights(trainer.weights())


def score(rows: list[Row], trainer: LocalTrainer) -> None:
    trainer.score(rows[:1])


@pytest.mark.parametrize("change", [grow, speak, leave, load, score])
def test_what_has_changed_since_is_computed_anew(random_model: Any, change: Callable[..., None]) -> None:
    plain, kept = trainer_of(random_model), trainer_of(random_model)
    for trainer in (plain, kept):
        rows = [row for row in some_rows(2) if len(row) > 4]
        rows[0].mask[1 : len(rows[0]) // 2] = False
        if trainer is kept:
            kept.score(rows, keep=400)
            passes = counted(kept)
        change(rows, trainer)
        before = len(passes) if trainer is kept else 0
        trainer.step(rows, CE, ONE, tokens=400)
        if trainer is kept:
            assert len(passes) == before + 1
    assert all(torch.allclose(grad, gradients(kept)[name], atol=1e-6) for name, grad in gradients(plain).items())


def test_another_temperature_more_micro_batches_or_recomputation_keep_nothing(random_model: Any) -> None:
    rows = some_rows(3)
    trainer = trainer_of(random_model)
    trainer.score(rows, 1.0, keep=400)
    passes = counted(trainer)
    trainer.step(rows, CE, ONE, 0.7, 400)
    assert passes == [7]
    trainer.score(rows, 1.0, keep=60)
    scored = len(passes)
    trainer.step(rows, CE, ONE, 1.0, 60)
    assert len(passes) == 2 * (scored - 1) + 1 and scored > 2
    saving = LocalTrainer(trainer.config.model_copy(update={"checkpointing": "all"}), copy.deepcopy(random_model))
    saving.configure(1e-2, (0.9, 0.99), 0.0, 0.0)
    saving.score(rows, 1.0, keep=400)
    assert saving._kept is None


def test_logits_that_are_held_give_what_logits_made_again_give(
    random_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = trainer_of(copy.deepcopy(random_model).apply(lambda m: torch.manual_seed(0)))
    with torch.no_grad():
        for parameter in teacher.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    terms, found = {"reverse_kl": reverse_kl.build(reverse_kl.Config())}, []
    for limit in (0, states.HELD_LOGITS):
        monkeypatch.setattr(states, "HELD_LOGITS", limit)
        trainer, rows = trainer_of(random_model), some_rows(4)
        for row, hidden in zip(rows, teacher.states(rows), strict=True):
            row.scored = [Scored(teacher.head("teacher"), hidden, trained_positions(row))]
        facts = trainer.step(rows, terms, {"reverse_kl": 1.0})
        found.append((facts, gradients(trainer)))
    assert found[1][0] == pytest.approx(found[0][0], abs=1e-7)
    assert found[0][0]["loss/reverse_kl"] > 1e-4
    for name, grad in found[0][1].items():
        torch.testing.assert_close(found[1][1][name], grad, atol=1e-7, rtol=1e-5)


def test_one_pass_gives_scores_and_states(random_model: Any) -> None:
    trainer, rows = trainer_of(random_model), some_rows(5)
    passes = counted(trainer)
    logps, hidden = trainer.score_states(rows, 0.8)
    assert sum(passes) == len(rows)
    assert all(np.array_equal(a, b) for a, b in zip(logps, trainer.score(rows, 0.8), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(hidden, trainer.states(rows), strict=True))
