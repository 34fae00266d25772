"""`noria tasks make microswe SOURCE…`: small repair tasks of the real functions of a package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria.cli_bar import bars
from noria.cli_swe import sandbox_of
from noria.core.disk import roomy
from noria.factory.functions.make import TASKS, Plan, make


def make_functions(
    out: Path, seed: int, sources: Sequence[str], unseen: Sequence[str], sandbox: str, as_json: bool
) -> None:
    """Run it with a progress bar and print its report. Raises UserError where nothing can be made."""
    plan = Plan(tuple(sources), out, seed, tuple(unseen))
    started = sandbox_of(sandbox, 1)
    try:
        with roomy(out.parent, "call the command again: it goes on"), bars(as_json) as shown:
            report = make(plan, started, shown.row("functions", 0))
    finally:
        started.close()
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        _print(report, Console())
        print(out / TASKS)


def _print(report: dict[str, Any], console: Console) -> None:
    keys = ("functions", "with_tasks", "tasks")
    splits = ", ".join(f"{count} {name}" for name, count in report["splits"].items())
    console.print(Text(", ".join(f"{key.replace('_', ' ')} {report[key]}" for key in keys) + f" ({splits})"))
    for source, reason in report["sources_refused"].items():
        console.print(Text(f"refused {source}: {reason}", "yellow"), soft_wrap=True)
    for title, key in (("package", "packages"), ("operator", "operators"), ("functions refused", "refused")):
        table = Table(title, "tasks" if key != "refused" else "count")
        for name, count in report[key].items():
            table.add_row(name, str(count))
        console.print(table)
