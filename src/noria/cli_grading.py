"""`noria tasks types`: the task types, the grader of each, and the worlds that use it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria.core import registry
from noria.graders.types import TYPES


def types(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False) -> None:
    """List the task types that the router of rewards knows: what grades each, and which worlds use it.

    Example: noria tasks types --json
    """
    users = worlds_of_types()
    rows: list[dict[str, Any]] = [
        {
            "type": name,
            "grader": kind.grader,
            "settings": dict(kind.settings),
            "about": kind.about,
            "worlds": users.get(name, []),
            "concurrency": kind.concurrency,
            "timeout_s": kind.timeout_s,
        }
        for name, kind in TYPES.items()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("type", "grader", "worlds", "what it is")
    for row in rows:
        settings = ", ".join(f"{key} = {value}" for key, value in row["settings"].items())
        said = Text(row["about"])
        if settings:
            said.append(f"\n{settings}", style="dim")
        table.add_row(Text(row["type"], no_wrap=True), row["grader"], ", ".join(row["worlds"]), said)
    Console().print(table)


def worlds_of_types() -> dict[str, list[str]]:
    """Task type -> the worlds whose module names it in `GRADES`."""
    found: dict[str, list[str]] = {}
    for world in registry.names("envs"):
        named = registry.constant("envs", world, "GRADES")
        for name in named if isinstance(named, tuple) else ():
            found.setdefault(str(name), []).append(world)
    return found
