"""Weights that compare tokens over a whole step: what they are given, and which streams they multiply."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from noria.core.recipe_phases import JointPhase, RlPhase
from noria.losses import entropy
from noria.signals import clip_b
from noria.stages.hooks import Hooks
from noria.trainers.entropy import entropies
from noria.trainers.local import Config, LocalTrainer
from noria.trainers.rows import Row, own_channel


@pytest.fixture
def student(random_model) -> LocalTrainer:
    return LocalTrainer(Config(line_tokens=40), random_model)


def rows_of(student: LocalTrainer) -> list[Row]:
    rng = np.random.default_rng(2)
    rows = []
    for i in range(6):
        size = 10 + 3 * i
        mask = [0, *(rng.random(size - 1) < 0.8).astype(int).tolist()]
        row = Row.plain(rng.integers(0, 50, size).tolist(), mask, i)
        row.advantage[:] = (-1.0, 0.5)[i % 2]
        rows.append(row)
    for row, logp in zip(rows, student.score(rows, 0.7), strict=True):
        row.logp_old = row.logp_mu = logp
    return rows


def test_entropies_are_those_that_a_loss_sees(student: LocalTrainer) -> None:
    rows = rows_of(student)
    found = entropies(student, rows, 0.7)
    student.configure(1e-3, (0.9, 0.99), 0.0, 0.0)
    facts = student.step(rows, {"h": entropy.build(entropy.Config())}, {"h": 1.0}, 0.7)
    tokens = np.concatenate([h[row.mask] for h, row in zip(found, rows, strict=True)])
    assert facts["loss/h"] == pytest.approx(-tokens.mean(), abs=1e-5)
    for row, mine in zip(rows, found, strict=True):
        logits = student.model(input_ids=torch.from_numpy(row.ids)[None]).logits[0] / 0.7
        assert (mine[~row.mask] == 0).all() and len(mine) == len(logits)


def expected(student: LocalTrainer, rows: list[Row], mu: float) -> list[float]:
    found = entropies(student, rows, 0.7)
    slopes = [clip_b.discriminant(row.logp_old, h) for row, h in zip(rows, found, strict=True)]
    every = np.concatenate([s[row.mask] for s, row in zip(slopes, rows, strict=True)])
    bound = every.mean() - mu * every.std()
    return [
        float(not (row.advantage[i] < 0 and s[i] < bound))
        for s, row in zip(slopes, rows, strict=True)
        for i in np.flatnonzero(row.mask)
    ]


USE = {"clip_b": {"mu": 0.5}}


def test_reinforcement_loses_the_tokens_that_the_batch_tells(student: LocalTrainer) -> None:
    rows = rows_of(student)
    want = expected(student, rows, 0.5)
    assert 0 < sum(want) < len(want)
    Hooks(RlPhase(signal="group_mean", temperature=0.7, use=USE), student=student).weigh(rows, "rl")
    assert np.concatenate([row.weight[row.mask] for row in rows]).tolist() == want


def test_in_a_joint_phase_only_reinforcement_is_weighed_and_only_its_rows_are_compared(student: LocalTrainer) -> None:
    rows = rows_of(student)
    for row in rows:
        row.channels = {"opd": own_channel(row)} | ({"rl": own_channel(row)} if row.group < 4 else {})
        row.advantage = np.zeros(len(row))
    hooks = Hooks(JointPhase(signal="joint", route="x", temperature=0.7, use=USE), student=student)
    hooks.weigh(rows, "opd")
    compared = rows_of(student)[:4]
    got = [row.channels["rl"].weight[row.mask] for row in rows[:4]]
    assert np.concatenate(got).tolist() == expected(student, compared, 0.5)
    assert all(row.channels["opd"].weight[row.mask].tolist() == [1.0] * int(row.mask.sum()) for row in rows)
    assert all(row.weight[row.mask].tolist() == [1.0] * int(row.mask.sum()) for row in rows)
