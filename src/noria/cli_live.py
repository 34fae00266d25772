"""A live view of a run: follows events.jsonl, so that it sees what every process of the run writes.

Scores and verdicts are read from the artifacts of the stages that ended.

On a terminal a panel with the stages and the latest scores is redrawn; elsewhere each event is one line, and what takes
long says how far it is.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from noria.cli_show import verdict_line
from noria.core.store import Run

INTERVAL_S = 0.5
SHOWN_STAGES = 12
#: Seconds between two lines about the progress of one stage, where there is no terminal.
PROGRESS_S = 30.0


class LiveView:
    """Context manager around a run."""

    def __init__(self, run: Run, console: Console) -> None:
        self._run = run
        self._path = run.path / "events.jsonl"
        self._console = console
        self._offset = self._path.stat().st_size if self._path.exists() else 0
        self._stages: dict[str, dict[str, Any]] = {}
        self._scores: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="live-view", daemon=True)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> LiveView:
        if self._live:
            self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._read()
        if self._live:
            self._live.update(self.panel(), refresh=True)
            self._live.stop()

    def _follow(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            self._read()
            if self._live:
                self._live.update(self.panel(), refresh=True)

    def _read(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # still being written
                self._offset += len(line)
                self.take(json.loads(line))

    def take(self, event: dict[str, Any]) -> None:
        """Account for one event."""
        kind, stage = event["event"], event.get("stage", "")
        if kind == "stage_start":
            self._stages[stage] = {"began": event["t"], "said": event["t"], "done": 0, "total": 0}
            self._line(f"{stage}: {'resumed' if event.get('resumed') else 'begins'}")
        elif kind == "progress" and stage in self._stages:
            self._stages[stage].update(done=event["done"], total=event["total"])
            if event["t"] - self._stages[stage]["said"] >= PROGRESS_S:
                self._stages[stage]["said"] = event["t"]
                self._line(f"{stage}: {event['done']} of {event['total']}")
        elif kind == "stage_end" and stage in self._stages:
            self._stages[stage].update(seconds=event["seconds"], out=event.get("out", {}))
            self._line(f"{stage}: {event['seconds']:.1f} s, {_counts(event.get('out', {}))}")
            self._results(stage)

    def _results(self, stage: str) -> None:
        """Scores and the verdict that a finished stage left, if any."""
        number = stage.partition("/")[0].removeprefix("round-")
        folder = self._run.folder(stage)
        for score in _read(folder / "scores.json") or []:
            key = (number, score["model"], score["world"])
            if score.get("split", "heldout") == "heldout" and self._scores.get(key) != score:
                self._scores[key] = score
                self._line(f"round {number}: {_score(score)}")
        verdict = _read(folder / "verdict.json")
        if verdict:
            self._line(f"round {number}: {verdict_line(verdict)}")

    def panel(self) -> Group:
        """Stages and scores as they stand."""
        stages = Table("stage", "progress", "seconds", "out", expand=False)
        for name, stage in list(self._stages.items())[-SHOWN_STAGES:]:
            seconds = stage.get("seconds", max(0.0, time.time() - stage["began"]))
            stages.add_row(name, _progress(stage), f"{seconds:.0f}", Text(_counts(stage.get("out", {}))))
        worlds = list(dict.fromkeys(world for _, _, world in self._scores))
        rows: dict[tuple[str, str], dict[str, str]] = {}
        for (number, model, world), score in self._scores.items():
            rows.setdefault((number, model), {})[world] = f"{100 * score['pass@1']:.1f} %"
        scores = Table("round", "model", *worlds, title="pass@1 on held-out tasks")
        for (number, model), row in rows.items():
            scores.add_row(number, model, *(row.get(world, "") for world in worlds))
        return Group(stages, scores) if self._scores else Group(stages)

    def _line(self, text: str) -> None:
        if self._live is None:
            self._console.print(Text(text), soft_wrap=True)


def _progress(stage: dict[str, Any]) -> str:
    if "seconds" in stage:
        return "done"
    done, total = stage["done"], stage["total"]
    if not total:
        return "…"
    filled = round(12 * done / total)
    return f"{'█' * filled}{'░' * (12 - filled)} {done}/{total}"


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in counts.items())


def _score(score: dict[str, Any]) -> str:
    low, high = score["ci95"]
    return (
        f"{score['model']} on {score['world']}: {100 * score['pass@1']:.1f} % "
        f"[{100 * low:.1f}, {100 * high:.1f}] of {score['n']}"
    )


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
