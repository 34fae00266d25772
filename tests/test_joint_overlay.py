"""The overlay for joint training: what it asks for, and one small run of it to the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from noria.core import registry
from noria.core.recipe import Recipe, load
from noria.core.recipe_phases import JointPhase
from noria.signals import linear

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
FILES = [RECIPES / "quickstart.toml", RECIPES / "overlays" / "joint.toml"]
TINY = RECIPES / "overlays" / "tiny.toml"
#: Small enough for every test run; its scores say nothing.
SMALL = ["gate.tasks=8", "env.repair.tasks=6", "env.ledger.tasks=6", "env.arithmetic.tasks=6", "hint.tasks=3",
         "hint.controls=false", "phase.sft.steps=1", "phase.efficiency.steps=0"]  # fmt: skip
DEADLINE_S = 600


def joint(recipe: Recipe) -> JointPhase:
    (phase,) = [phase for phase in recipe.phase.values() if isinstance(phase, JointPhase)]
    return phase


@pytest.mark.parametrize("files", [FILES, [*FILES, TINY]], ids=["quickstart", "tiny"])
def test_experts_are_merged_under_both_signals(files: list[Path]) -> None:
    recipe = load(files)
    phase = joint(recipe)
    names = list(recipe.phase)
    assert phase.route == "experts" and names.index("experts") < list(recipe.phase.values()).index(phase)
    assert phase.alpha > 0 and phase.beta > 0 and phase.rollouts_per_prompt >= 2
    assert {registry.constant("losses", name, "FAMILY") for name in phase.loss} == {"opd", "rl"}


def test_alpha_falls_to_its_end_and_beta_stays() -> None:
    phase = joint(load(FILES))
    (name, table), *others = phase.use.items()
    fade = linear.build(table.config(name))
    assert fade.target == "alpha" and not others
    values = [fade.value(step, phase.steps, phase.alpha) for step in range(phase.steps)]
    assert values == pytest.approx([1.0, 0.75, 0.5, 0.25])


@pytest.mark.slow
def test_a_small_run_trains_both_parts_and_ends_with_a_verdict(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "noria.cli", "run", *map(str, [*FILES, TINY]), *SMALL]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (run,) = (tmp_path / "runs").iterdir()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["phase"] == "round-1/distill"]
    assert [row["step"] for row in steps] == [1, 2]
    for row in steps:
        assert row["loss/reverse_kl"] > 0 and row["loss/clipped"] != 0 and row["groups"] == 12
        assert {f"distill/k1/{world}" for world in ("repair", "ledger", "arithmetic")} <= row.keys()
    assert json.loads((run / "round-1/gate/verdict.json").read_text())["reason"]
