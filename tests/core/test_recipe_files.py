"""Every recipe and overlay that ships is valid."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from noria.core.recipe import load
from noria.core.recipe_phases import EfficiencyPhase, Sampled, SftPhase

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
WHOLE = sorted(RECIPES.glob("*.toml"))
OVERLAYS = sorted((RECIPES / "overlays").glob("*.toml"))
#: The recipes of those that don't fit every one.
BASES = {"code-smollm2": "functions.toml"}


def test_the_named_recipes_are_there() -> None:
    assert "quickstart" in [file.stem for file in WHOLE]
    assert {"sabotage", "tiny"} <= {file.stem for file in OVERLAYS}


@pytest.mark.parametrize("file", WHOLE, ids=lambda file: file.stem)
def test_a_shipped_recipe_is_valid_and_named_after_its_file(file: Path) -> None:
    assert load([file]).name == file.stem


@pytest.mark.parametrize("file", OVERLAYS, ids=lambda file: file.stem)
def test_a_shipped_overlay_fits_its_recipe_and_changes_it(file: Path) -> None:
    recipe = RECIPES / BASES.get(file.stem, "quickstart.toml")
    assert load([recipe, file]).fingerprint() != load([recipe]).fingerprint()
    assert tomllib.loads(file.read_text()).get("name") is None


def test_quickstart_is_the_closed_loop_of_three_worlds() -> None:
    recipe = load([RECIPES / "quickstart.toml"])
    assert recipe.rounds == 2
    assert {name: plug.type for name, plug in recipe.env.items()} == {
        "repair": "microswe", "ledger": "ledger", "arithmetic": "arithmetic",
    }  # fmt: skip
    assert list(recipe.teachers) == ["careful", "direct"]
    assert list(recipe.phase) == ["sft", "experts", "distill", "efficiency"]
    efficiency = recipe.phase["efficiency"]
    assert isinstance(efficiency, EfficiencyPhase)
    assert (efficiency.boundary, efficiency.rollouts_per_prompt, efficiency.envs) == (
        "inclusive",
        10,
        ["arithmetic"],
    )
    assert recipe.gate.tasks >= 384


def test_sabotage_learns_a_hundred_times_too_fast_in_every_phase() -> None:
    plain = load([RECIPES / "quickstart.toml"])
    ruined = load([RECIPES / "quickstart.toml", RECIPES / "overlays" / "sabotage.toml"])
    for name, phase in ruined.phase.items():
        assert phase.lr >= 100 * plain.phase[name].lr and phase.steps > 0
    assert isinstance(ruined.phase["sft"], SftPhase) and ruined.phase["sft"].steps * ruined.phase["sft"].lr > 1


def test_tiny_is_a_handful() -> None:
    tiny = load([RECIPES / "quickstart.toml", RECIPES / "overlays" / "tiny.toml"])
    sampled = [phase for phase in tiny.phase.values() if isinstance(phase, Sampled)]
    rollouts = sum(phase.steps * phase.prompts_per_step * phase.rollouts_per_prompt for phase in sampled)
    assert rollouts <= 100
    assert len(tiny.env) * tiny.gate.tasks <= 100
