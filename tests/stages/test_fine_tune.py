"""A supervised phase that is left with nothing to train on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from noria.core.errors import UserError
from noria.core.recipe_phases import SftPhase
from noria.stages.train import fine_tune


def test_a_phase_without_rows_says_what_to_do() -> None:
    keeper = cast(Any, SimpleNamespace(label="round-1/sft"))
    with pytest.raises(UserError, match="round-1/sft must have something to train on.*give more tasks"):
        fine_tune(keeper, 0, cast(Any, None), [], SftPhase(signal="curated"))
