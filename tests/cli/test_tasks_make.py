"""`noria tasks make WORLD`: the factory behind the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noria.core.codec import read_jsonl
from noria.core.types import Task


def test_make_fills_a_folder_that_a_world_draws_from(noria, tmp_path: Path) -> None:
    out = tmp_path / "domains"
    asked = ("tasks", "make", "tooluse", "--domains", "1", "--out", str(out), "--seed", "4")
    made = noria(*asked, "--json")
    report = json.loads(made.out)
    assert made.code == 0 and report["domains"] == 1 and report["tools"] >= 10 and report["goals"] >= 4
    again = noria(*asked)
    assert again.code == 0 and "distinct signatures" in again.out and str(out) in again.out
    refused = noria(*asked[:-1], "5")
    assert refused.code == 2 and "--out must be a new folder" in refused.err


def test_make_wants_one_world_that_can(noria, tmp_path: Path) -> None:
    out = str(tmp_path / "x")
    for arguments, message in (
        (("ledger", "--domains", "3"), "WORLD must be one that makes domains, as tooluse: got 'ledger'"),
        (("ledgr",), "did you mean 'ledger'?"),
        ((), "make must be told one world"),
        (("tooluse", "--env", "ledger"), "make must be told one world"),
        (("tooluse", "--domains", "3", "--n", "5"), "--domains must stand alone"),
        (("ledger", "--dedup", "1.5"), "--dedup must be above 0"),
        (("ledger", "--compared", "id"), "--compared must be content or prompt"),
        (("ledger", "--split", "test"), "--split must be train, heldout or unseen"),
        (("swe", "./x", "--set", "path=y"), "--set must not go with swe and SOURCE"),
        (("swe", "./x", "--dedup", "0.8"), "--dedup must not go with swe and SOURCE"),
        (("swe", "./x", "--unseen", "y"), "--unseen must not go with swe and SOURCE"),
        (("microswe", "./x", "--n", "3"), "--n must not go with microswe and SOURCE"),
        (("microswe", "./x", "--split", "heldout"), "--split must not go with microswe and SOURCE"),
    ):
        result = noria("tasks", "make", *arguments, "--out", out)
        assert result.code == 2 and message in result.err, result.err
    result = noria("tasks", "make", "ledger", "--out", str(tmp_path / "no" / "x"))
    assert result.code == 2 and "--out must lie in an existing folder" in result.err


def test_tasks_are_streamed_and_pruned(noria, tmp_path: Path) -> None:
    file, kept = tmp_path / "tasks.jsonl", tmp_path / "kept.jsonl"
    asked = ("tasks", "make", "boundaries", "--n", "40", "--dedup", "0.9", "--compared", "prompt")
    asked += ("--proved", "--out", str(file))
    report = json.loads(noria(*asked, "--json").out)
    assert report["tasks"] == 40 and report["drawn"] == 40 + sum(report["dropped"].values())
    assert report["dropped"]["near duplicate"] > 0 and not report["used_up"]
    before = file.read_bytes()
    again = noria(*asked)
    assert again.code == 0 and f"40 tasks in {file}" in again.out and file.read_bytes() == before
    refused = noria(*asked, "--seed", "2")
    assert refused.code == 2 and "differs in seed" in refused.err
    pruned = noria("tasks", "prune", str(file), "--env", "boundaries", "--out", str(kept), "--json")
    report = json.loads(pruned.out)
    assert report["measured"] == 40 and 0 < report["tasks"] < 40 and report["dropped"]["unknown"] == 0
    assert [task.world for task in read_jsonl(kept, Task)] == ["boundaries"] * report["tasks"]
    rates = [json.loads(line) for line in (tmp_path / "kept.jsonl.rates").read_text().splitlines()]
    assert len(rates) == 40 and sum(0.1 <= line["rate"] <= 0.9 for line in rates) == report["tasks"]
    for wrong, message in (
        (("--low", "0.9", "--high", "0.1"), "--low must be at most --high"),
        (("--model", "builtin:tiny", "--strategy", "careful"), "--strategy must stand without --model"),
        (("--strategy", "none"), "--strategy must be one of"),
    ):
        result = noria("tasks", "prune", str(file), "--env", "boundaries", "--out", str(tmp_path / "y"), *wrong)
        assert result.code == 2 and message in result.err, result.err


@pytest.mark.slow
def test_a_model_prunes_as_well(noria, tmp_path: Path) -> None:
    file, kept = tmp_path / "tasks.jsonl", tmp_path / "kept.jsonl"
    noria("tasks", "make", "ledger", "--n", "3", "--out", str(file))
    asked = ("tasks", "prune", str(file), "--env", "ledger", "--model", "builtin:tiny", "--rollouts", "2")
    report = json.loads(noria(*asked, "--low", "0", "--high", "1", "--out", str(kept), "--json").out)
    assert report["measured"] == report["tasks"] == 3


def test_the_world_proves_itself(noria) -> None:
    result = noria(
        "tasks", "validate", "--env", "tooluse", "--n", "2", "--split", "heldout", "--split", "unseen", "--json"
    )
    data = json.loads(result.out)
    assert result.code == 0 and data["refused"] == 0, result.out
    assert [row["split"] for row in data["worlds"]] == ["heldout", "unseen"]
    assert all(row["forged"] >= 12 for row in data["worlds"])
