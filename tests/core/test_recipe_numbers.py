"""Numbers that no recipe can mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.core.errors import UserError
from noria.core.recipe import load

RECIPE = """
name = "numbers"
[env]
sums = { type = "arithmetic" }
[phase.grow]
signal = "group_mean"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


@pytest.mark.parametrize("key", ["phase.grow.lr", "rollout.temperature"])
@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
def test_a_number_must_be_finite(recipe: Path, key: str, value: str) -> None:
    with pytest.raises(UserError, match=f"{key} must be a finite number"):
        load([recipe], [f"{key}={value}"])


@pytest.mark.parametrize(
    ("rollouts", "minibatches", "best"),
    [(12, 5, 4), (12, 9, 6), (14, 9, 7), (7, 3, 1), (8, 99, 8), (10**6 - 1, 2, 1), (999983, 10**6, 999983)],
)
def test_the_nearest_number_of_minibatches_is_proposed_at_once(
    recipe: Path, rollouts: int, minibatches: int, best: int
) -> None:
    values = {"prompts_per_step": 1, "rollouts_per_prompt": rollouts, "minibatches": minibatches}
    with pytest.raises(UserError, match=f"set minibatches = {best}$"):
        load([recipe], [f"phase.grow.{key}={value}" for key, value in values.items()])


@pytest.mark.parametrize("engine", ["embedded", "transformers"])
@pytest.mark.parametrize("table", ["rollout", "eval"])
def test_episodes_fit_the_engine_whose_limit_nobody_set(recipe: Path, engine: str, table: str) -> None:
    """Or every long one would end as a fault of the engine, which is unknown."""
    type_ = f'student.engine.type="{engine}"'
    load([recipe], [type_, f"{table}.max_tokens=448"])
    with pytest.raises(
        UserError, match=f"{table}.max_tokens must not exceed student.engine.max_tokens: got 449 and 448"
    ):
        load([recipe], [type_, f"{table}.max_tokens=449"])
    load([recipe], [type_, f"{table}.max_tokens=449", "student.engine.max_tokens=449"])
