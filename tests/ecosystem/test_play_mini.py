"""`noria play` with the real mini-swe-agent: the same tasks and verifier as over the house's own forms."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

os.environ |= {"MSWEA_SILENT_STARTUP": "1", "MSWEA_COST_TRACKING": "ignore_errors", "LITELLM_LOCAL_MODEL_COST_MAP": "1"}
pytest.importorskip("minisweagent", reason="mini-swe-agent is not installed: run `make test-ecosystem`")

from typer.testing import CliRunner

from noria.cli import app
from noria.core.codec import read_jsonl
from noria.core.types import Trajectory


def noria(*arguments: str) -> Any:
    answer = CliRunner().invoke(app, [*arguments, "--json"])
    assert answer.exit_code == 0, answer.exception
    return json.loads(answer.stdout)


def play(out: Path, *more: str) -> list[Trajectory]:
    noria("play", *more, "--env", "microswe", "--sandbox", "process", "--out", str(out))
    return list(read_jsonl(out, Trajectory))


def test_an_expert_solves_the_same_tasks_over_every_scaffold(tmp_path: Path) -> None:
    out, both = tmp_path / "r.jsonl", ("xml", "mini_swe_agent")
    found = play(out, "recover", *(word for name in both for word in ("--scaffold", name)), "--n", "2")
    here, there = (found[:2], found[2:])
    assert [t.scaffold for t in found] == [both[0]] * 2 + [both[1]] * 2
    for a, b in zip(here, there, strict=True):
        assert a.task == b.task and a.solved and b.solved and b.source == "teacher:recover" and b.stop == "done"
        assert all('<call name="bash">' in turn.message for turn in b.turns) and b.branches == ()
        tests = [turn.observation for turn in b.turns if "pytest" in turn.message]
        assert "failed" in tests[0] and "passed" in tests[-1]  # it really ran, in the agent's folder
        assert not any(b.record.mask) and set(b.record.versions) == {-1} and "teacher:recover" in b.record.sources
    facts = noria("filter", str(out), "--out", str(tmp_path / "kept.jsonl"))
    assert facts["kept"] == 4 and facts["scaffolds"]["mini_swe_agent"] == {"read": 2, "kept": 2}


def test_a_checkpoint_is_recorded_as_it_was_sampled(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    small = ("rollout.max_turns=2", "rollout.max_new_tokens=24", "executor.workers=1")
    (found,) = play(out, "builtin:tiny", *small, "--scaffold", "mini_swe_agent", "--n", "1")
    assert found.scaffold == "mini_swe_agent" and found.outcome.reward == 0.0
    assert 0 < found.action_tokens <= 48 and 1 <= len(found.turns) <= 2
