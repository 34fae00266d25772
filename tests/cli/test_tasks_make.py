"""`noria tasks make WORLD`: the factory behind the command line."""

from __future__ import annotations

import json
from pathlib import Path

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
        (("ledger",), "WORLD must be one that makes domains, as tooluse: got 'ledger'"),
        (("ledgr",), "did you mean 'ledger'?"),
        ((), "make must be told one world"),
        (("tooluse", "--env", "ledger"), "make must be told one world"),
    ):
        result = noria("tasks", "make", *arguments, "--out", out)
        assert result.code == 2 and message in result.err, result.err


def test_tasks_of_a_world_are_written_as_before(noria, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    made = noria("tasks", "make", "--env", "ledger", "--n", "3", "--out", str(file), "--json")
    assert json.loads(made.out) == {"tasks": 3, "file": str(file)}
    assert [task.world for task in read_jsonl(file, Task)] == ["ledger"] * 3


def test_the_world_proves_itself(noria) -> None:
    result = noria(
        "tasks", "validate", "--env", "tooluse", "--n", "2", "--split", "heldout", "--split", "unseen", "--json"
    )
    data = json.loads(result.out)
    assert result.code == 0 and data["refused"] == 0, result.out
    assert [row["split"] for row in data["worlds"]] == ["heldout", "unseen"]
    assert all(row["forged"] >= 12 for row in data["worlds"])
