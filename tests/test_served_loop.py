"""A whole run whose rollouts a server decodes: killed while it trains, gone on with, in step with its server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serving import Served

ROOT = Path(__file__).resolve().parents[1]
FILES = [str(ROOT / "recipes" / f"{name}.toml") for name in ("quickstart", "overlays/tiny", "overlays/served")]
#: Small enough to be run at all; its scores say nothing.
SMALL = [
    "gate.tasks=4", "env.repair.tasks=4", "env.ledger.tasks=4", "env.arithmetic.tasks=4", "hint.tasks=2",
    "supervisor.pairs=1", "phase.experts.steps=3", "phase.distill.steps=1", "phase.efficiency.steps=0",
    "phase.experts.max_staleness=0", "phase.distill.max_staleness=0",
]  # fmt: skip
#: For a machine that has other work too: alone the whole takes minutes.
DEADLINE_S = 4 * 3600


def noria(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "noria.cli", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def rows_of(run: Path) -> list[dict[str, float]]:
    file = run / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.slow
def test_a_run_on_a_server_is_killed_while_it_trains_and_goes_on_in_step_with_it(tmp_path: Path) -> None:
    room = tmp_path / "weights"
    with Served("builtin:tiny", "--name", "policy", "--updates", str(room), "--slots", "32") as server:
        given = [f"student.engine.base_url={server.url}", f"student.engine.weights={room}"]
        process = noria(tmp_path, "run", *FILES, *SMALL, *given)
        deadline = time.monotonic() + DEADLINE_S
        try:
            while not any("logp_diff/mean" in row for path in tmp_path.glob("runs/*") for row in rows_of(path)):
                assert process.poll() is None, process.communicate()[0][-3000:]
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            process.send_signal(signal.SIGKILL)  # the server holds weights of a step that the run may not know any more
            process.wait()
        (run,) = tmp_path.glob("runs/*")
        again = noria(tmp_path, "resume", str(run))
        said, _ = again.communicate(timeout=DEADLINE_S)
        assert again.returncode == 0, said[-3000:]
    found = [row for row in rows_of(run) if "logp_diff/mean" in row]
    assert len(found) >= 3 * 3, "three experts of three steps"
    # Weights that had not arrived would show here: what the server said of its tokens is what the trainer says.
    assert max(row["logp_diff/mean"] for row in found) < 1e-4
    assert [path.name for path in room.iterdir()] == ["lock"]
