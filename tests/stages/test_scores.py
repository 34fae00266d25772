"""Engine and trainer must agree: the log-probability of every sampled token, over turns and observations."""

from __future__ import annotations

import numpy as np
import pytest
from stage_helpers import engine_of

from noria.stages import rows as rows_of
from noria.stages.roller import Job, Limits, Roller
from noria.trainers.local import Config, LocalTrainer


@pytest.mark.parametrize("temperature", [1.0, 1.4])
def test_the_engines_probabilities_are_the_trainers(worlds, renderer, taught, temperature):
    roller = Roller(worlds, renderer, engine_of(taught, renderer, temperature), Limits(max_turns=6), 4)
    roller.submit(Job(f"{t.id}/{k}", t.task, 31 + k) for t in taught.lessons for k in range(3))
    found = []
    while roller.pending:
        found += roller.step()
    rows = [rows_of.sampled(t, i) for i, t in enumerate(found)]
    trainer = LocalTrainer(Config(line_tokens=448), taught.model)
    for row, logp, t in zip(rows, trainer.score(rows, temperature), found, strict=True):
        np.testing.assert_allclose(row.logp_mu, logp, atol=1e-4)
        assert row.mask.sum() == t.record.action_tokens > 0
        assert (row.logp_mu[~row.mask] == 0).all()
    assert max(len(t.turns) for t in found) >= 3
