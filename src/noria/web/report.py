"""The report of a run: one HTML file that needs nothing beside it, made from the run folder alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from noria.core.store import Run, write_atomically
from noria.web import figures
from noria.web.data import RunData, read_run
from noria.web.pairs import PairView, load_decode, read_pairs
from noria.web.picture import printable

REPORT = "report.html"
_HERE = Path(__file__).parent


def write_report(run: Run) -> Path:
    """Write `report.html` into the run folder and return its path.

    A run that isn't over gets a report of what is there. The file is replaced whole or not at all.
    """
    path = run.path / REPORT
    write_atomically(path, printable(render(run)))
    return path


def render(run: Run) -> str:
    """The page as text."""
    data = read_run(run)
    pairs, notes = _pairs(run, data)
    page = _environment().get_template("report.html.j2")
    return page.render(
        data=data,
        notes=[*data.notes, *notes],
        head=figures.head(data),
        headline=figures.headline(data),
        tables=figures.score_tables(data),
        score_charts=figures.score_charts(data),
        gains=figures.gains(data),
        curves=figures.curve_charts(data),
        arms=figures.arm_charts(data),
        pairs=pairs,
        filters=figures.filters(data),
        timings=figures.timings(data),
        models=figures.models(data),
    )


def _pairs(run: Run, data: RunData) -> tuple[list[tuple[int, dict[str, list[PairView]]]], list[str]]:
    """Pairs by round, and a note for each round whose pairs this version can't read."""
    student: dict[str, Any] = data.recipe.get("student") or {}
    decode = load_decode(run, str(student.get("model", "")))
    out, notes = [], []
    for part in data.rounds:
        try:
            found = read_pairs(run, part.number, decode)
        except ValueError as fault:
            notes.append(f"The pairs of round {part.number} can't be read by this version: {fault}")
            continue
        if found:
            out.append((part.number, found))
    return out, notes


@cache
def _environment() -> Environment:
    """Everything is escaped unless it is markup that our own code made."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["pct"] = lambda share, digits=1: f"{100 * share:.{digits}f}"
    environment.filters["points"] = lambda share: f"{100 * share:+.1f}"
    environment.filters["seconds"] = figures.duration
    return environment
