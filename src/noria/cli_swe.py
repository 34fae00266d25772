"""`noria tasks make swe SOURCE…`: the factory of software tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from noria.core import registry
from noria.core.disk import roomy
from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.core.recipe_tables import SandboxTable
from noria.factory.make import Plan, make
from noria.mutations import operators as all_operators

#: Limits of the sandbox that builds and tests run in.
MEMORY_MB, DISK_MB, PIDS = 1024, 256, 256


def make_swe(
    out: Path,
    n: int,
    seed: int,
    sources: Sequence[str],
    operators: Sequence[str],
    languages: Sequence[str],
    evaluation: Sequence[Path],
    workers: int | None,
    sandbox: str,
    as_json: bool,
) -> None:
    """Run the factory with a progress bar and print its report. Raises UserError where nothing can be made."""
    if not sources:
        raise UserError("SOURCE must name a repository: got none - give a folder, git+URL, pypi:NAME, npm:NAME")
    known = registry.names("languages")
    for language in languages:
        if language not in known:
            raise UserError(
                f"--language must be one of {', '.join(known)}: got {language!r}{registry.nearest(language, known)}"
            )
    mutations = all_operators()
    for name in operators:
        if name not in mutations:
            raise UserError(
                f"--operators must be of docs/mutations.md: got {name!r}{registry.nearest(name, mutations)} - "
                f"some are {', '.join(mutations[:4])}"
            )
    at_once = workers or os.cpu_count() or 1
    plan = Plan(
        tuple(sources), out, n, seed, tuple(operators), tuple(languages), at_once, evaluation=tuple(evaluation)
    )  # fmt: skip
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    started = sandbox_of(sandbox, at_once)
    try:
        with (
            roomy(out.parent, "call the command again: it goes on"),
            Progress(*columns, console=console, disable=as_json or not console.is_terminal) as progress,
        ):
            bar = progress.add_task("swe", total=n)
            report = make(
                plan, started, lambda kept, what: progress.update(bar, completed=kept, description=f"swe {what}")
            )  # fmt: skip
    finally:
        started.close()
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        _print(report, out, Console())


def sandbox_of(name: str, at_once: int) -> Sandbox:
    """The sandbox of that name with room for builds and tests, `at_once` of them. Raises UserError."""
    table = SandboxTable.model_validate(
        {"type": name, "memory_mb": MEMORY_MB, "disk_mb": DISK_MB, "pids": PIDS, "servers": at_once}
        if name == "bwrap"
        else {"type": name}
    )
    sandbox: Sandbox = table.module().build(table.config())
    return sandbox


def _print(report: dict[str, Any], out: Path, console: Console) -> None:
    """Figures, then what was refused and why, then a row for each repository and operator."""
    keys = ("tasks", "asked", "tried", "proven", "yield", "tasks_per_hour")
    console.print(Text(", ".join(f"{key.replace('_', ' ')} {report[key]}" for key in keys)), soft_wrap=True)
    for source, reason in report["sources_refused"].items():
        console.print(Text(f"refused {source}: {reason}", "yellow"), soft_wrap=True)
    for source, notes in report["notes"].items():
        console.print(Text(f"{source}: {'; '.join(notes)}", "dim"), soft_wrap=True)
    for title, key in (("repository", "by_repo"), ("operator", "by_operator")):
        table = Table(title, "tried", "proven", "kept", "yield")
        for name, row in report[key].items():
            table.add_row(name, *(str(row[each]) for each in ("tried", "proven", "kept")), f"{row['yield']:.0%}")
        console.print(table)
    table = Table("candidates refused", "count")
    for reason, count in report["refused"].items():
        table.add_row(reason, str(count))
    console.print(table)
    console.print(Text(str(out)))
