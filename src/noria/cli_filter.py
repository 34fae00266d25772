"""`noria filter`: the trajectories of a file or a run that are fit to train on, and why the others are not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from noria import cli_export
from noria.core.codec import dumps
from noria.core.errors import UserError
from noria.stages.filtering import Limits, Report, kept

_USUAL = Limits()


def filter_trajectories(
    source: Annotated[
        str, typer.Argument(metavar="FILE|RUN", help="Trajectories: a file, a run, its name, or recorded sessions.")
    ],
    out: Annotated[Path, typer.Option("--out", help="NAME.jsonl: those that are kept, as phase.NAME.data reads them.")],
    max_turns: Annotated[int, typer.Option(min=1, help="Messages of the policy at most.")] = _USUAL.max_turns,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a context at most.")] = _USUAL.max_tokens,
    most_invalid: Annotated[
        float, typer.Option(min=0, max=1, help="Share of calls that no tool takes as they are, at most.")
    ] = _USUAL.most_invalid,
    stage: Annotated[
        list[str] | None, typer.Option("--stage", help="Of a run, as round-1/rollout; may be repeated. Default: all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Keep the trajectories that solved their task, within limits and with valid calls, each once.

    Example: noria filter rollouts.jsonl --out kept.jsonl
    """
    check_new(out)
    report = Report()
    limits = Limits(max_turns, max_tokens, most_invalid)
    write_whole(out, (dumps(each) for each in kept(cli_export.read_source(source, stage or []), limits, report)))
    facts = report.as_json()
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    table = Table("what", "trajectories")
    rows = [("read", report.read), ("kept", report.kept), *((f"dropped: {k}", v) for k, v in facts["dropped"].items())]
    rows += [
        (f"kept of {name or 'unsaid'}", f"{of['kept']} of {of['read']}") for name, of in facts["scaffolds"].items()
    ]
    for name, count in rows:
        table.add_row(name.replace("_", " "), str(count))
    Console().print(table)


def check_new(out: Path) -> None:
    """Raises UserError: it is no name of a new file of JSON lines."""
    if out.suffix != ".jsonl":
        raise UserError(f"--out must be a file NAME.jsonl: got {str(out)!r} - call it {out.stem or 'kept'}.jsonl")
    if out.exists():
        raise UserError(f"--out must be new: {str(out)!r} exists - name another, or remove it")


def write_whole(out: Path, lines: Iterator[str]) -> None:
    """Write lines; the file is there when it is whole. Raises UserError where it cannot be written."""
    part = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(line + "\n")
        part.replace(out)
    except OSError as fault:
        raise UserError(
            f"--out must be a place to write to: got {str(out)!r} ({fault.strerror}) - name another"
        ) from None
    finally:
        part.unlink(missing_ok=True)
