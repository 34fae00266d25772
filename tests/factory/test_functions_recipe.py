"""The recipe that trains on real functions says what the report on the code agent says."""

from __future__ import annotations

import json
from pathlib import Path

from noria.core import recipe as recipes
from noria.core.recipe_phases import RlPhase, SftPhase

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "functions.toml"
ROW = {
    "split": "train", "package": "p", "function": "f", "kind": "k", "line": 2, "app": "def f(a):\n    return a - 1\n",
    "gold": "def f(a):\n    return a + 1\n", "wrong": [[2, "return a"]], "calls": [[["1"], "2"]], "spare": [],
}  # fmt: skip


def test_the_recipe_says_what_the_report_says(tmp_path: Path) -> None:
    tasks = tmp_path / "functions.jsonl"
    rows = (ROW, {**ROW, "split": "heldout", "app": "def f(a):\n    return a * 1\n"})
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = recipes.load([RECIPE], [f"env.repair.path='{tasks}'", "student.model=builtin:tiny"])
    sft, code = found.phase["sft"], found.phase["code"]
    assert isinstance(sft, SftPhase) and sft.teacher_share == 1.0 and sft.mask_errors
    assert isinstance(code, RlPhase) and code.signal == "group_mean"
    assert code.loss["clipped"].options.items() >= {"aggregate": "prompt", "eps_high": 0.28}.items()
    assert (code.tis_cap, code.max_staleness, code.max_refills) == (2.0, 1, 1)
    assert code.difficulty is not None and (code.difficulty.low, code.difficulty.high) == (0.1, 0.9)
    assert code.prompts_per_step * code.rollouts_per_prompt >= 64
    assert found.student.engine.config().slots >= 64
    # One temperature for all: what is measured is what was trained.
    assert found.rollout.temperature == code.temperature == found.eval.temperature


def test_the_recipe_reads_its_tasks_where_it_is_run() -> None:
    found = recipes.load([RECIPE], ["student.model=builtin:tiny"])
    assert not Path(found.env["repair"].config().path).is_absolute()
