"""What a run folder says: stages from manifests, scores, verdicts. Needs nothing but the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria.core.codec import read_json
from noria.core.store import MANIFEST, PARTIAL, Run

SCORES = "scores.json"
CAPTION = "pass@1 in %, 95 % interval, mean tokens of a solved task"
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
    if any(part["scores"] for part in data["rounds"]):
        console.print(_scores(data, data["run"]))
    else:
        console.print(Text(f"{data['run']}: no scores yet"), soft_wrap=True)
    apart = {"rounds": [{"scores": _split(folder, "unseen")} for folder in rounds(run)]}
    if any(part["scores"] for part in apart["rounds"]):
        console.print(_scores(apart, "unseen families, apart from the verdict"))
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
    verdict = read_json(folder / "gate" / "verdict.json")
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
        "scores": _split(folder, "heldout"),
        "verdict": {key: verdict[key] for key in ("promoted", "reason")} if verdict else None,
    }


def _split(folder: Path, split: str) -> list[dict[str, Any]]:
    """The scores of a round on one split: all of them once the round is evaluated, till then what there is."""
    files = [folder / "evaluate" / SCORES]
    if not files[0].exists():
        files = [path.parent / SCORES for path, _ in _manifests(folder) if path.parent.name.startswith("evaluate-")]
    return [
        {key: score.get(key) for key in SCORE_KEYS}
        for path in files
        for score in read_json(path) or []
        if score.get("split", "heldout") == split
    ]


def _manifests(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Manifests of finished stages, in the order they were finished."""
    found = [
        (path, read_json(path))
        for path in folder.rglob(MANIFEST)
        if not any(part.endswith(PARTIAL) for part in path.relative_to(folder).parts)
    ]
    return sorted(found, key=lambda item: (item[1]["created"], str(item[0])))


def _scores(data: dict[str, Any], title: str) -> Table:
    """One line per round and model, one column per world: pass@1, its interval, tokens per solved task."""
    worlds = list(dict.fromkeys(s["world"] for part in data["rounds"] for s in part["scores"]))
    table = Table(title=Text(title, no_wrap=True), caption=CAPTION)
    table.add_column("round", justify="right", min_width=5)
    table.add_column("model", min_width=10)
    for world in worlds:
        table.add_column(world, justify="right", no_wrap=True)
    for number, part in enumerate(data["rounds"], start=1):
        models = list(dict.fromkeys(s["model"] for s in part["scores"]))
        for model in models:
            found = {s["world"]: s for s in part["scores"] if s["model"] == model}
            last = model == models[-1]
            table.add_row(str(number), model, *(_cell(found.get(world)) for world in worlds), end_section=last)
    return table


def _cell(score: dict[str, Any] | None) -> str:
    if score is None:
        return ""
    low, high = score["ci95"]
    unknown = f" ({score['unknown']} unknown)" if score["unknown"] else ""
    rate = f"{100 * score['pass@1']:.1f} [dim]{100 * low:.0f}–{100 * high:.0f}[/dim]"
    tokens = "" if score["tokens_per_solve"] is None else f"\n[dim]{score['tokens_per_solve']:.0f} tok[/dim]"
    return f"{rate}{tokens}{unknown}"


def _stages(number: int, stages: list[dict[str, Any]]) -> Table:
    table = Table("stage", "seconds", "in", "out", title=f"round {number}: stages")
    for stage in stages:
        counts = [", ".join(f"{key} {value}" for key, value in stage[side].items()) for side in ("in", "out")]
        table.add_row(stage["name"], f"{stage['seconds']:.1f}", *map(Text, counts))
    return table
