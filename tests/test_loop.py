"""The whole loop as a user runs it: `noria run`, kill -9 in a stage, `noria resume`, `noria show`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECIPE = [str(ROOT / "recipes" / "quickstart.toml"), str(ROOT / "recipes" / "overlays" / "tiny.toml")]
#: Small enough for every test run; its scores say nothing.
SMALL = ["gate.tasks=8", "env.repair.tasks=6", "env.ledger.tasks=6", "env.arithmetic.tasks=6", "hint.tasks=3"]
#: Stages whose result depends on nothing but the seed.
DETERMINISTIC = ("rollout", "pair", "analyze", "hint", "resample", "curate", "sft", "evaluate-weak", "evaluate-sft")
#: Over within milliseconds: killed as soon as seen, which may be just after their end.
QUICK = ("hint", "curate")
DEADLINE_S = 600


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "noria.cli", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, out[-3000:]
    return out


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def kill_in(folder: Path, stage: str) -> Path:
    """Start a run and kill it, and all that it started, as soon as `stage` is being made."""
    process = start(folder, "run", *RECIPE, *SMALL)
    deadline = time.monotonic() + DEADLINE_S
    while not list(folder.glob(f"runs/*/round-1/{stage}.partial")):
        assert process.poll() is None, process.communicate()[0][-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.001 if stage in QUICK else 0.02)
    time.sleep(0.0 if stage in QUICK else 0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return only_run(folder)


def hashes(run: Path, stage: str) -> dict[str, str]:
    manifest = json.loads((run / "round-1" / stage / "manifest.json").read_text())
    return {name: facts["sha256"] for name, facts in manifest["files"].items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    finish(start(folder, "run", *RECIPE, *SMALL))
    return only_run(folder)


def test_a_run_leaves_every_artifact_and_a_report(undisturbed: Path) -> None:
    summary = json.loads(finish(start(undisturbed.parents[1], "show", str(undisturbed), "--json")))
    (only,) = summary["rounds"]
    models = {score["model"] for score in only["scores"]}
    assert models == {"weak", "sft", "expert:repair", "expert:ledger", "expert:arithmetic", "merged", "final"}
    assert all(score["n"] == 8 and score["unknown"] == 0 for score in only["scores"])
    assert isinstance(only["verdict"]["promoted"], bool) and only["verdict"]["reason"]
    assert not list(undisturbed.glob("**/*.partial"))
    assert "<html" in (undisturbed / "report.html").read_text()


def test_hints_leave_prompt_and_thought(undisturbed: Path) -> None:
    hints = [json.loads(line) for line in (undisturbed / "round-1/hint/hints.jsonl").read_text().splitlines()]
    kept = (undisturbed / "round-1/curate/trajectories.jsonl").read_text()
    assert hints and all(hint["text"] not in kept for hint in hints)


@pytest.mark.parametrize("stage", ["analyze", "experts/repair"])
def test_a_killed_run_resumes_to_the_same_artifacts(undisturbed: Path, tmp_path: Path, stage: str) -> None:
    check_resumes(undisturbed, tmp_path, stage)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stage",
    ["evaluate-weak", "rollout", "hint", "resample", "curate", "sft", "evaluate-sft", "experts/ledger", "distill",
     "efficiency", "evaluate-final"],
)  # fmt: skip
def test_a_run_killed_in_any_stage_resumes(undisturbed: Path, tmp_path: Path, stage: str) -> None:
    check_resumes(undisturbed, tmp_path, stage)


def check_resumes(undisturbed: Path, folder: Path, stage: str) -> None:
    run = kill_in(folder, stage)
    assert stage in QUICK or not (run / "round-1" / stage / "manifest.json").exists()
    finish(start(folder, "resume", str(run)))
    assert not list(run.glob("**/*.partial"))
    for name in DETERMINISTIC:
        assert hashes(run, name) == hashes(undisturbed, name), name
    for name in ("experts/repair", "experts/ledger", "experts/arithmetic", "distill", "efficiency"):
        consumed = json.loads((run / "round-1" / name / "groups.json").read_text())
        groups = [group for group, _ in consumed]
        assert groups == list(range(len(groups))), name
