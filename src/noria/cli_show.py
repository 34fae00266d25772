"""What a run folder says: stages from manifests, scores, verdicts. Needs nothing but the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria.core.store import MANIFEST, PARTIAL, Run

SCORE_KEYS = ("model", "world", "n", "correct", "unknown", "pass@1", "ci95", "tokens_per_solve")


def summary(run: Run) -> dict[str, Any]:
    """{"run", "rounds": [{"stages", "scores", "verdict"}]}; a verdict that is not there yet is null."""
    return {"run": run.name, "rounds": [_round(folder) for folder in rounds(run)]}


def rounds(run: Run) -> list[Path]:
    """The folders round-1, round-2, … in order."""
    found = [path for path in run.path.glob("round-*") if path.is_dir() and path.name[6:].isdigit()]
    return sorted(found, key=lambda path: int(path.name[6:]))


def show(run: Run, console: Console, stages: bool = True) -> None:
    """Print round x model x world, and the stages of each round."""
    data = summary(run)
    console.print(_scores(data))
    for number, part in enumerate(data["rounds"], start=1):
        if stages:
            console.print(_stages(number, part["stages"]))
        verdict = part["verdict"]
        if verdict:
            console.print(Text(f"round {number}: {verdict_line(verdict)}"), soft_wrap=True)
    if not data["rounds"]:
        console.print(Text("no round has begun"))


def verdict_line(verdict: dict[str, Any]) -> str:
    """`promoted` or `kept`, and why."""
    word, reason = "promoted" if verdict["promoted"] else "kept", str(verdict["reason"])
    return reason if reason.startswith(word) else f"{word}: {reason}"


def _round(folder: Path) -> dict[str, Any]:
    verdict = _read(folder / "gate" / "verdict.json")
    return {
        "stages": [
            {
                "name": str(path.parent.relative_to(folder)),
                "seconds": manifest["seconds"],
                "in": manifest["counts"]["in"],
                "out": manifest["counts"]["out"],
            }
            for path, manifest in _manifests(folder)
        ],
        "scores": [
            {key: score.get(key) for key in SCORE_KEYS}
            for score in _read(folder / "evaluate" / "scores.json") or []
            if score.get("split", "heldout") == "heldout"
        ],
        "verdict": {key: verdict[key] for key in ("promoted", "reason")} if verdict else None,
    }


def _manifests(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Manifests of finished stages, in the order they were finished."""
    found = [
        (path, _read(path))
        for path in folder.rglob(MANIFEST)
        if not any(part.endswith(PARTIAL) for part in path.relative_to(folder).parts)
    ]
    return sorted(found, key=lambda item: (item[1]["created"], str(item[0])))


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _scores(data: dict[str, Any]) -> Table:
    table = Table(title=data["run"])
    for column in ("round", "model", "world", "pass@1", "95 % interval", "n", "unknown", "tokens per solve"):
        table.add_column(column, justify="left" if column in ("model", "world") else "right")
    for number, part in enumerate(data["rounds"], start=1):
        for score in part["scores"]:
            tokens = score["tokens_per_solve"]
            low, high = score["ci95"]
            table.add_row(
                str(number), score["model"], score["world"], f"{100 * score['pass@1']:.1f} %",
                f"{100 * low:.1f} to {100 * high:.1f}", str(score["n"]), str(score["unknown"]),
                "-" if tokens is None else f"{tokens:.0f}",
            )  # fmt: skip
        table.add_section()
    return table


def _stages(number: int, stages: list[dict[str, Any]]) -> Table:
    table = Table("stage", "seconds", "in", "out", title=f"round {number}: stages")
    for stage in stages:
        counts = [", ".join(f"{key} {value}" for key, value in stage[side].items()) for side in ("in", "out")]
        table.add_row(stage["name"], f"{stage['seconds']:.1f}", *map(Text, counts))
    return table
