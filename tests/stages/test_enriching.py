"""Enrichment inside a run: samples beside their trajectories, made once; and a server on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from noria.cli import app
from noria.core.codec import write_jsonl
from noria.core.recipe_phases import SftPhase
from noria.core.types import Task, Trajectory
from noria.engines.scripted import ScriptedServer
from noria.stages.context import Context
from noria.stages.enriching import COUNTS, SAMPLES, enriched_rows
from noria.stages.roller import Job, Roller


@pytest.fixture(scope="module")
def solved(scripted: Roller, tasks: dict[str, list[Task]]) -> list[Trajectory]:
    chosen = [*tasks["ledger"][:6], *tasks["arithmetic"][:2]]
    return [scripted.play(Job(f"e/{task.id}", task, 0, "careful")) for task in chosen]


def phase(**table: Any) -> SftPhase:
    return SftPhase(signal="curated", **table)


def test_a_share_of_a_phases_trajectories_is_written_anew(
    ctx: Context, solved: list[Trajectory], tmp_path: Path
) -> None:
    assert enriched_rows(ctx, "sft", phase(), solved, tmp_path) == [] and not (tmp_path / SAMPLES).exists()
    asked = phase(enrich={"share": 1.0, "plan": False, "refine": False})
    rows = enriched_rows(ctx, "sft", asked, solved, tmp_path)
    counts = json.loads((tmp_path / COUNTS).read_text())
    assert counts["read"] == 8 and counts["diversified"] == counts["written"] > 3 and counts["planned"] == 0
    assert counts["dropped"]["without_tools"] == 2 and 0 < len(rows) <= counts["written"]
    lines = [json.loads(line) for line in (tmp_path / SAMPLES).read_text().splitlines()]
    assert {line["enrichment"]["trajectory"] for line in lines} <= {t.id for t in solved}
    text = ctx.renderer.decode([int(i) for i, m in zip(rows[0].ids, rows[0].mask, strict=True) if m])
    assert lines[0]["messages"][2]["content"] in text

    (tmp_path / COUNTS).unlink()  # a continued phase reads what was made, and makes nothing
    again = enriched_rows(ctx, "sft", asked, [], tmp_path)
    assert [row.ids.tolist() for row in again] == [row.ids.tolist() for row in rows] and not (
        tmp_path / COUNTS
    ).exists()


def test_nothing_to_enrich_is_no_fault(ctx: Context, solved: list[Trajectory], tmp_path: Path) -> None:
    assert enriched_rows(ctx, "sft", phase(enrich={"share": 1.0}), solved[-2:], tmp_path) == []
    assert json.loads((tmp_path / COUNTS).read_text())["dropped"] == {"without_tools": 2}


def test_a_server_words_thoughts_on_the_command_line(solved: list[Trajectory], tmp_path: Path) -> None:
    pytest.importorskip("openai")
    file = tmp_path / "found.jsonl"
    write_jsonl(file, solved[:6])

    def answer(request: Any) -> str:
        assert request["model"] == "strong"
        return "1. Look at what there is.\n2. Do what is asked."

    def run(out: str, *more: str) -> dict[str, Any]:
        command = ["enrich", str(file), "--out", str(tmp_path / out), "--share", "1", "--plan", "--json", *more]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.exception
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    with ScriptedServer(answer) as server:
        report = run("told.jsonl", "--propose", server.url, "--model", "strong")
        asked = [str(request["messages"]) for request in server.requests]
    assert report["planned"] == report["by_model"] == report["written"] == len(asked) > 0
    lines = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    assert all("1. Look at what there is." in line["messages"][2]["content"] for line in lines)
    by_rules = run("rules.jsonl")
    assert by_rules["planned"] == report["planned"] and by_rules["by_model"] == 0
    plain = [json.loads(line) for line in (tmp_path / "rules.jsonl").read_text().splitlines()]
    for told, ruled in zip(lines, plain, strict=True):  # actions and what came of them are the same
        assert told["messages"][3:] == ruled["messages"][3:] and told["enrichment"] == ruled["enrichment"]
