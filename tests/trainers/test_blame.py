"""Where a number that is not finite came from: the term, the stream, the rows, the parameter."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from noria.losses import ce
from noria.trainers.blame import unusual
from noria.trainers.local import BadStep, Config, LocalTrainer
from noria.trainers.rows import Row

TERMS = {"ce": ce.build(ce.Config())}


def trainer_of(model: torch.nn.Module) -> LocalTrainer:
    trainer = LocalTrainer(Config(line_tokens=24, chunk_tokens=16), copy.deepcopy(model))
    trainer.configure(1e-2, (0.9, 0.99), 0.0, 1.0)
    return trainer


def rows(n: int = 6) -> list[Row]:
    rng = np.random.default_rng(3)
    return [Row.plain(rng.integers(1, 50, 10).tolist(), [0, 0] + [1] * 8, group=i) for i in range(n)]


def fault_of(trainer: LocalTrainer, sick: list[Row], coefficient: float = 1.0) -> BadStep:
    with pytest.raises(BadStep) as caught:
        trainer.step(sick, TERMS, {"ce": coefficient}, tokens=24)
    assert trainer.optimiser is not None and not trainer.optimiser.state
    assert all(p.grad is None for p in trainer.model.parameters())
    return caught.value


def test_a_stream_is_named_with_its_rows(random_model):
    sick = rows()
    sick[3].weight[5] = np.nan
    sick[4].weight[7] = np.inf
    sick[1].weight[0] = np.nan  # carries no loss
    fault = fault_of(trainer_of(random_model), sick)
    assert fault.rows == (3, 4)
    assert "loss/ce" in str(fault) and "the rows' weight is not (rows 3, 4)" in str(fault)


def test_many_rows_are_counted(random_model):
    sick = rows()
    for row in sick:
        row.weight[5] = np.nan
    fault = fault_of(trainer_of(random_model), sick)
    assert fault.rows == tuple(range(6)) and "(rows 0, 1, 2 and 3 more)" in str(fault)


def test_weights_that_are_ill_are_named(random_model):
    trainer = trainer_of(random_model)
    with torch.no_grad():
        trainer.model.model.layers[1].mlp.up_proj.weight[3, 3] = float("nan")
    fault = fault_of(trainer, rows())
    assert "the weights themselves are not (model.layers.1.mlp.up_proj.weight)" in str(fault)


def test_an_embedding_that_overflows_is_traced_to_the_rows_that_read_it(random_model):
    trainer, read = trainer_of(random_model), rows()
    read[2].ids[4] = 0
    with torch.no_grad():
        trainer.model.model.embed_tokens.weight[0] = 3e38
    fault = fault_of(trainer, read)
    assert "the model's log-probabilities are not" in str(fault) and 2 in fault.rows


def test_a_gradient_that_overflows_is_named(random_model):
    fault = fault_of(trainer_of(random_model), rows(), coefficient=float("inf"))
    told = "the gradient norm is not; the gradient of ce alone is not, first in rows 0, 1; first bad gradient in "
    assert f"{told}model.embed_tokens.weight" in str(fault)


def test_the_term_whose_gradient_alone_is_bad_is_named_with_its_rows(random_model):
    trainer, terms = trainer_of(random_model), {"calm": ce.build(ce.Config()), "wild": ce.build(ce.Config())}
    with pytest.raises(BadStep) as caught:
        trainer.step(rows(), terms, {"calm": 1.0, "wild": float("inf")}, tokens=1000)
    told = str(caught.value)
    assert "the gradient of wild alone is not, first in rows 0" in told and "gradient of calm" not in told
    # Lines hold two rows of ten tokens: the blame is narrower than the one micro-batch of the step.
    assert caught.value.rows == (0, 1) and "coef = inf of wild (usual: up to 100)" in told
    assert all(p.grad is None for p in trainer.model.parameters())


@pytest.mark.parametrize(
    ("stream", "advice"),
    [
        ("advantage", "see what the phase's signal and the worlds' rewards gave these rows"),
        ("weight", "see the token weights in use"),
        ("logp_old", "take dtype float32, or lower lr"),
        ("logp_mu", "the engine told these"),
        ("logp_teacher", "the teacher told these"),
        ("logp_ref", "the reference told these"),
    ],
)
def test_the_advice_is_for_who_made_the_numbers(random_model, stream: str, advice: str):
    sick = rows()
    values = np.zeros(10)
    values[5] = np.nan
    setattr(sick[2], stream, values)
    sick[2].weight[5] = np.nan  # the loss reads this one
    told = str(fault_of(trainer_of(random_model), sick))
    assert f"{stream} is not (rows 2)" in told and advice in told.partition(" - ")[2]
    assert "grad_norm clips" not in told


def test_settings_far_from_usual_are_told_first():
    assert unusual(1e-3, 1.0, {"ce": 1.0, "kl": -2.0}, (32.0, 16)) == []
    assert unusual(0.02, 0.1, {}, (1e9, 0)) == []
    assert unusual(0.2, 1e-3, {"ce": -1e6}, (1e6, 8)) == [
        "lr = 0.2 (usual: up to 0.02)", "lora_alpha = 1e+06 at lora_rank = 8 (usual: up to 16 times the rank)",
        "temperature = 0.001 (usual: 0.1 to 10)", "coef = -1e+06 of ce (usual: up to 100)",
    ]  # fmt: skip


def test_a_learning_rate_that_ruins_the_weights_is_what_the_message_begins_its_advice_with(random_model):
    trainer = trainer_of(random_model)
    trainer.set_lr(1e36)
    with pytest.raises(BadStep) as caught:
        for _ in range(3):
            trainer.step(rows(), TERMS, {"ce": 1.0}, tokens=24)
    assert " - bring back what is far from usual: lr = 1e+36 (usual: up to 0.02)" in str(caught.value)
