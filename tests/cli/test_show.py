"""What `noria show` reads from a run folder, and the live view."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from noria.cli_live import LiveView
from noria.cli_show import summary
from noria.core.recipe import load
from noria.core.store import Run

SCORE = {
    "model": "weak", "world": "repair", "split": "heldout", "n": 40, "correct": 10, "unknown": 1,
    "pass@1": 0.25, "ci95": [0.14, 0.41], "tokens_per_solve": 512.0, "k": 1,
}  # fmt: skip


@pytest.fixture
def run(recipe: Path) -> Run:
    run = Run.create(recipe.parent / "runs", load([recipe]))
    for number in (10, 2):  # made in this order; the numbers count
        with run.artifact(f"round-{number}/tasks") as work:
            work.count_out(tasks=30)
    with run.artifact("round-2/experts/repair") as work:
        work.count_in(samples=5)
    with run.artifact("round-2/evaluate") as work:
        scores = [SCORE, {**SCORE, "split": "unseen"}, {**SCORE, "model": "final", "tokens_per_solve": None}]
        (work.path / "scores.json").write_text(json.dumps(scores))
    with run.artifact("round-2/gate") as work:
        verdict = {"promoted": False, "reason": "repair got worse", "evidence": {"p": 0.01}}
        (work.path / "verdict.json").write_text(json.dumps(verdict))
    (run.path / "round-2" / "half.partial").mkdir()
    (run.path / "round-2" / "half.partial" / "manifest.json").write_text("{")
    return run


def test_the_summary_has_exactly_the_promised_shape(run: Run) -> None:
    data = summary(run)
    assert list(data) == ["run", "rounds"] and data["run"] == run.name
    second, tenth = data["rounds"]
    assert [stage["name"] for stage in second["stages"]] == ["tasks", "experts/repair", "evaluate", "gate"]
    assert second["stages"][1].keys() == {"name", "seconds", "in", "out"}
    assert (second["stages"][0]["out"], second["stages"][1]["in"]) == ({"tasks": 30}, {"samples": 5})
    plain = {key: value for key, value in SCORE.items() if key not in ("split", "k")}
    assert second["scores"] == [plain, {**plain, "model": "final", "tokens_per_solve": None}]
    assert second["verdict"] == {"promoted": False, "reason": "repair got worse"}
    assert tenth["scores"] == [] and tenth["verdict"] is None


@pytest.mark.parametrize("file", ["gate/verdict.json", "evaluate/scores.json", "tasks/manifest.json"])
def test_a_damaged_file_is_named_with_the_fix(noria, run: Run, file: str) -> None:
    (run.path / "round-2" / file).write_text('{"promo')
    result = noria("show", run.name)
    assert result.code == 2 and file in result.err.replace("\n", "") and "noria resume" in result.err


def test_show_prints_json_and_a_table(noria, run: Run) -> None:
    assert json.loads(noria("show", str(run.path), "--json").out) == summary(run)
    out = noria("show", run.name).out
    for words in ("25.0 14–41", "512 tok", "round 1: kept: repair got worse", "experts/repair"):
        assert words in out


def test_a_run_that_has_not_begun_is_shown(noria, recipe: Path) -> None:
    run = Run.create(recipe.parent / "runs", load([recipe]))
    assert json.loads(noria("show", run.name, "--json").out) == {"run": run.name, "rounds": []}
    assert "no round has begun" in noria("show", run.name).out


def test_the_live_view_tells_each_stage_and_score_once(run: Run) -> None:
    out = io.StringIO()
    with LiveView(run, Console(file=out, width=120)):
        with run.artifact("round-3/rollout") as work:
            work.progress(1, 2)
            work.progress(2, 2)
            work.count_out(right=3)
        for stage in ("round-3/evaluate-weak", "round-3/evaluate"):  # the second collects the first
            with run.artifact(stage) as work:
                (work.path / "scores.json").write_text(json.dumps([SCORE, {**SCORE, "split": "unseen"}]))
        with run.artifact("round-3/gate") as work:
            (work.path / "verdict.json").write_text(json.dumps({"promoted": True, "reason": "better"}))
    lines = out.getvalue().splitlines()
    assert lines[0] == "round-3/rollout: begins"
    assert lines[1].startswith("round-3/rollout: ") and lines[1].endswith("right 3")
    assert [line for line in lines if line.startswith("round 3")] == [
        "round 3: weak on repair: 25.0 % [14.0, 41.0] of 40",
        "round 3: promoted: better",
    ]


def test_the_panel_shows_progress_and_the_latest_scores(run: Run) -> None:
    view = LiveView(run, Console(file=io.StringIO()))
    view.take({"t": 0.0, "event": "stage_start", "stage": "round-1/sft"})
    view.take({"t": 1.0, "event": "progress", "stage": "round-1/sft", "done": 3, "total": 4})
    view.take({"t": 0.0, "event": "stage_start", "stage": "round-2/evaluate"})
    view.take({"t": 0.0, "event": "stage_end", "stage": "round-2/evaluate", "seconds": 1.0, "out": {"scores": 2}})
    screen = Console(file=io.StringIO(), width=100, record=True)
    screen.print(view.panel())
    text = screen.export_text()
    assert "█████████░░░ 3/4" in text and "scores 2" in text
    rows = [line.split("│")[1:4] for line in text.splitlines() if "25.0 %" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["2", "weak", "25.0 %"],
        ["2", "final", "25.0 %"],
    ]


def test_scores_show_before_the_round_is_evaluated(noria, run: Run) -> None:
    result = noria("show", run.name)
    assert result.code == 0 and "no scores yet" not in result.out
    with run.artifact("round-10/evaluate-weak") as work:
        (work.path / "scores.json").write_text(json.dumps([SCORE]))
    plain = {key: value for key, value in SCORE.items() if key not in ("split", "k")}
    assert summary(run)["rounds"][1]["scores"] == [plain]


def test_a_run_without_scores_says_so(noria, recipe: Path) -> None:
    run = Run.create(recipe.parent / "runs", load([recipe]))
    result = noria("show", run.name)
    assert result.code == 0 and f"{run.name}: no scores yet" in result.out.replace("\n", "")


def test_what_takes_long_says_how_far_it_is_where_there_is_no_terminal(run: Run) -> None:
    out = io.StringIO()
    view = LiveView(run, Console(file=out, width=120))
    view.take({"event": "stage_start", "stage": "round-3/rollout", "t": 100.0})
    for t, done in ((110.0, 10), (131.0, 20), (140.0, 30), (162.0, 40)):
        view.take({"event": "progress", "stage": "round-3/rollout", "t": t, "done": done, "total": 50})
    lines = ["round-3/rollout: begins", "round-3/rollout: 20 of 50", "round-3/rollout: 40 of 50"]
    assert out.getvalue().splitlines() == lines
