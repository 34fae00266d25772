"""Where a number that is not finite came from: the term, the stream, the rows, the parameter."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from noria.losses import ce
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
    assert "the gradient norm is not; first bad gradient in model.embed_tokens.weight" in str(fault)
