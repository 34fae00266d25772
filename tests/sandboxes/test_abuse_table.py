"""The table of attacks: the sandbox holds every one and nothing is left; what isolates nothing holds few of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import abuse_trial
from hostile import bwrap_reason


@pytest.mark.skipif(bwrap_reason() is not None, reason=str(bwrap_reason()))
def test_every_attack_is_held_and_leaves_nothing() -> None:
    rows = abuse_trial.measure("bwrap", list(abuse_trial.CASES))
    assert len(rows) == len(abuse_trial.CASES) + 1 > 36
    assert [(row["name"], row["out"]) for row in rows if abuse_trial.said(row["out"]) == "OUT"] == []
    assert [(row["name"], row["left"]) for row in rows if row["left"]] == []


def test_attacks_succeed_where_nothing_is_isolated() -> None:
    """Or the table would prove nothing: the same code gets out of `process`."""
    names = {"network", "signals to the host", "ptrace and memory of others", "reads of the host's secrets"}
    rows = abuse_trial.measure("process", [case for case in abuse_trial.CASES if case.name in names])
    assert {row["name"] for row in rows if "ESCAPED" in row["out"]} == names
