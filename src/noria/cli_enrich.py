"""`noria enrich`: trajectories under other tool schemas, with plans and better reasoning, each proved by replay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from noria import cli_export, cli_filter, cli_make, cli_worlds
from noria.core import registry
from noria.core.errors import UserError
from noria.core.protocols import World
from noria.core.recipe import Recipe
from noria.core.store import Run
from noria.core.types import Trajectory
from noria.stages.enrichment.enrich import Ask, Options, Report, enrich
from noria.stages.lines import read_file


class Worlds:
    """Worlds by the name that tasks give them, opened when they are first asked for and closed together."""

    def __init__(
        self, stack: ExitStack, recipe: Recipe | None, types: Mapping[str, str], sandbox: str, options: Sequence[str]
    ) -> None:
        self._stack, self._recipe, self._types = stack, recipe, types
        self._sandbox, self._options = sandbox, options
        self._open: dict[str, World | None] = {}

    def __call__(self, name: str) -> World | None:
        """The world of this name, None where there is none."""
        if name not in self._open:
            self._open[name] = self._opened(name)
        return self._open[name]

    def _opened(self, name: str) -> World | None:
        if self._recipe is None:
            type_ = self._types.get(name, name)
            if type_ not in registry.names("envs"):
                return None
            return self._stack.enter_context(cli_worlds.opened(type_, self._sandbox, self._options))
        table = self._recipe.env.get(name)
        if table is None:
            return None
        lazy = cli_worlds.LazySandbox(self._recipe.sandbox)
        self._stack.callback(lazy.close)
        world: World = table.module().build(table.config(), lazy)
        self._stack.callback(world.close)
        return world


def enrich_trajectories(
    source: Annotated[str, typer.Argument(metavar="FILE|RUN", help="Trajectories: a file, a run, or its name.")],
    out: Annotated[Path, typer.Option("--out", help="NAME.jsonl: samples, as phase.NAME.data reads them.")],
    schemas: Annotated[
        bool, typer.Option("--schemas", help="Other tool schemas. Without a choice: all three.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="The first reasoning becomes a plan.")] = False,
    refine: Annotated[bool, typer.Option("--refine", help="Empty, copied, contradictory reasoning anew.")] = False,
    share: Annotated[float, typer.Option("--share", help="Share of the trajectories, 0 to 1.")] = 0.3,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Chooses, draws and words.")] = 0,
    stage: Annotated[
        list[str] | None, typer.Option("--stage", help="Of a run, as round-1/curate; may be repeated. Default: all.")
    ] = None,
    envs: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=TYPE", help="With a file: a world whose tasks have another name."),
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="With a file: option of its worlds.")
    ] = None,
    sandbox: Annotated[str, typer.Option(help="With a file: where its worlds run.")] = "bwrap",
    propose: Annotated[
        str | None, typer.Option("--propose", metavar="URL", help="Server whose model words plans and reasoning.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="With --propose: its name there.")] = None,
    key_env: Annotated[
        str | None, typer.Option("--api-key-env", metavar="VAR", help="With --propose: variable that holds the key.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Write trajectories anew: tools under other names and shapes, a plan first, better reasoning, all proved.

    What does not replay is dropped and counted. Actions, their order and what they gave stay the same.

    Example: noria enrich runs/quickstart-20260102-101500 --stage round-1/curate --out enriched.jsonl --share 0.3
    """
    if not 0 < share <= 1:
        raise UserError(f"--share must be above 0 and at most 1: got {share:g} - 0.3 is usual")
    if out.suffix != ".jsonl":
        raise UserError(f"--out must be a file NAME.jsonl: got {str(out)!r} - call it {out.stem or 'enriched'}.jsonl")
    if out.exists():
        raise UserError(f"--out must be new: {str(out)!r} exists - name another, or remove it")
    types = dict(_type_of(each) for each in envs or [])
    every = not (schemas or plan or refine)
    report = Report()
    with ExitStack() as stack:
        recipe, found = _source(source, stage or [], [*(envs or []), *(options or [])], report)
        ask, concurrency = _asking(stack, propose, model, key_env)
        chosen = Options(schemas or every, plan or every, refine or every, share, seed, ask, concurrency)
        worlds = Worlds(stack, recipe, types, sandbox, options or [])
        _write(out, enrich(found, worlds, chosen, report))
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
        return
    table = Table("what", "trajectories")
    for key, value in report.as_json().items():
        for name, count in (
            {key: value}.items() if key != "dropped" else [(f"dropped: {k}", v) for k, v in value.items()]
        ):
            table.add_row(name.replace("_", " "), str(count))
    Console().print(table)


def _source(
    source: str, stages: list[str], options: list[str], report: Report
) -> tuple[Recipe | None, Iterator[Trajectory]]:
    """The recipe of a run, None for a file, and the trajectories."""
    path = Path(source)
    if path.is_file():
        if stages:
            raise UserError(f"--stage must be left out for a file: got {', '.join(stages)} - remove it")
        return None, _of_file(path, report)
    if options:
        raise UserError("--set and --env must be left out for a run, whose recipe says how its worlds are - remove it")
    named = Path("runs") / source
    run = Run.open(named if not path.exists() and named.exists() else source)
    chosen = cli_export.stages_of(run, stages)
    return run.recipe(), (each for name in chosen for each in cli_export.read_stage(run, name))


def _type_of(text: str) -> tuple[str, str]:
    name, _, type_ = text.partition("=")
    known = registry.names("envs")
    if not name or type_ not in known:
        raise UserError(
            f"--env must be NAME=TYPE with a world of this installation: got {text!r}{registry.nearest(type_, known)}"
        )
    return name, type_


def _of_file(path: Path, report: Report) -> Iterator[Trajectory]:
    """The trajectories of a file; a conversation has no task in which it could be replayed."""
    for _, line in read_file(path):
        if isinstance(line, Trajectory):
            yield line
        else:
            report.read += 1
            report.dropped["no_task"] += 1


def _asking(stack: ExitStack, propose: str | None, model: str | None, key_env: str | None) -> tuple[Ask | None, int]:
    """What asks the model of a server, and how many questions at once."""
    server = cli_make.server_of(propose, model, key_env)
    if server is None:
        return None, 1
    return cli_make.asking(stack, server)


def _write(out: Path, samples: Iterator[dict[str, Any]]) -> None:
    cli_filter.write_whole(out, (json.dumps(sample, ensure_ascii=False, allow_nan=False) for sample in samples))
