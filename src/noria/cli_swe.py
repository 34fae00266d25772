"""`noria tasks make swe SOURCE…`: the factory of software tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria.cli_bar import bars
from noria.cli_make import asking
from noria.core import registry
from noria.core.disk import roomy
from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.core.recipe_tables import SandboxTable
from noria.core.remote import ServerConfig
from noria.factory import history as commits
from noria.factory import proposed
from noria.factory.bugs import names
from noria.factory.make import Plan, make

#: Limits of the sandbox that builds and tests run in.
MEMORY_MB, DISK_MB, PIDS = 1024, 256, 256
#: How a model is asked for a bug: a whole function, each time another.
ASKED = {"max_output_tokens": 4096, "temperature": 1.0}


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
    history: int = 0,
    server: ServerConfig | None = None,
    worded: bool = False,
) -> None:
    """Run the factory with a progress bar and print its report; a server's model writes bugs, and `worded` statements.

    Raises:
        UserError: nothing can be made.
        EngineError: the server fails again and again.
    """
    if not sources:
        raise UserError("SOURCE must name a repository: got none - give a folder, git+URL, pypi:NAME, npm:NAME")
    known = registry.names("languages")
    for language in languages:
        if language not in known:
            raise UserError(
                f"--language must be one of {', '.join(known)}: got {language!r}{registry.nearest(language, known)}"
            )
    bugs = names()
    for name in operators:
        if name not in bugs:
            raise UserError(
                f"--operators must be of docs/mutations.md: got {name!r}{registry.nearest(name, bugs)} - "
                f"some are {', '.join(bugs[:4])}"
            )
    if proposed.OPERATOR in operators and server is None:
        raise UserError(
            f"--operators {proposed.OPERATOR} must go with a model: got none - add --propose URL --model NAME"
        )
    if commits.OPERATOR in operators and not history:
        raise UserError(f"--operators {commits.OPERATOR} must go with --history: got none - add --history 200")
    if worded and server is None:
        raise UserError("--worded must go with a model: got none - add --propose URL --model NAME")
    at_once = workers or os.cpu_count() or 1
    plan = Plan(
        tuple(sources), out, n, seed, tuple(operators), tuple(languages), at_once, evaluation=tuple(evaluation),
        history=history, model=server.model if server is not None else "", worded=worded,
    )  # fmt: skip
    with ExitStack() as stack:
        ask = asking(stack, server, **ASKED)[0] if server is not None else None
        started = sandbox_of(sandbox, at_once)
        stack.callback(started.close)
        with roomy(out.parent, "call the command again: it goes on"), bars(as_json) as shown:
            report = make(plan, started, shown.row("swe", n), ask)
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
    for title, key in (("language", "by_language"), ("repository", "by_repo"), ("operator", "by_operator")):
        table = Table(title, "tried", "proven", "kept", "yield")
        for name, row in report[key].items():
            table.add_row(name, *(str(row[each]) for each in ("tried", "proven", "kept")), f"{row['yield']:.0%}")
        console.print(table)
    table = Table("candidates refused", "count")
    for reason, count in report["refused"].items():
        table.add_row(reason, str(count))
    console.print(table)
    console.print(Text(str(out)))
