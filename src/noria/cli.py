"""The command line: `noria run recipes/quickstart.toml rounds=1`.

Every command ends in one place, `main`: a fault of the user is one red message and exit code 2. What needs
torch is imported inside the command that needs it, so that the others work without.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria import (
    __version__,
    cli_check,
    cli_doctor,
    cli_enrich,
    cli_export,
    cli_filter,
    cli_masks,
    cli_models,
    cli_play,
    cli_sandbox,
    cli_serve,
    cli_show,
    cli_tasks,
    cli_worlds,
)
from noria.cli_live import LiveView
from noria.core import registry
from noria.core.disk import roomy
from noria.core.errors import NoriaError, UserError
from noria.core.recipe import Recipe, load, of_world
from noria.core.store import Run
from noria.stages.inspection import check_files

HELP = """Turns a model's own failures into the next model.

A recipe is a TOML file; overlays are further files laid over it, and key.sub=value changes one value.

\b
noria check recipes/quickstart.toml            validate, print the plan
noria run recipes/quickstart.toml              the closed loop
noria run recipes/quickstart.toml recipes/overlays/tiny.toml seed=1
noria resume runs/quickstart-20260102-101500   go on after a stop or crash
noria show runs/quickstart-20260102-101500     scores and verdicts
"""

app = typer.Typer(
    name="noria", help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)  # fmt: skip


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options that stand before a command."""


app.add_typer(cli_models.app, name="models")
app.add_typer(cli_tasks.app, name="tasks")
app.add_typer(cli_sandbox.app, name="sandbox")
app.command(name="masks")(cli_masks.masks)
app.command()(cli_serve.serve)
app.command()(cli_export.export)
app.command(name="enrich")(cli_enrich.enrich_trajectories)
app.command()(cli_play.play)
app.command(name="filter")(cli_filter.filter_trajectories)

Arguments = Annotated[
    list[str], typer.Argument(metavar="RECIPE [OVERLAY…] [key=value…]", help="Files, then single values.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="Folder of a run, or its name under runs/.")]


@app.command()
def run(arguments: Arguments) -> None:
    """Run a recipe: the closed loop, round by round.

    Example: noria run recipes/quickstart.toml phase.sft.lr=5e-4 gate.tasks=200
    """
    recipe = _load(arguments)
    _heavy("noria.round")  # before a folder is made that nothing would fill
    with roomy(Path(recipe.runs_dir), "run it again"):
        target = Run.create(recipe.runs_dir, recipe)
    _work(recipe, target)


@app.command()
def resume(folder: RunFolder) -> None:
    """Go on with a run at its first missing artifact; nothing that is done is done again.

    Example: noria resume runs/quickstart-20260102-101500
    """
    found = _open(folder)
    recipe = found.recipe()
    if not all(found.done(f"round-{number}/analyze") for number in range(1, recipe.rounds + 1)):
        cli_check.check_engines(recipe)
    _work(recipe, found)


@app.command()
def check(arguments: Arguments, as_json: AsJson = False) -> None:
    """Resolve and validate a recipe, print the plan and the batch arithmetic; runs nothing, needs no torch.

    Example: noria check recipes/quickstart.toml phase.experts.prompts_per_step=12
    """
    recipe = _load(arguments)
    if as_json:
        data = {"recipe": json.loads(recipe.resolved_json()), "fingerprint": recipe.fingerprint()}
        _print_json({**data, "plan": cli_check.plan(recipe)})
    else:
        cli_check.show(recipe, Console())


@app.command()
def show(
    folder: RunFolder,
    as_json: AsJson = False,
    report: Annotated[
        bool, typer.Option("--report", help="Write its report.html anew from what is finished, and say where it is.")
    ] = False,
) -> None:
    """Show a run, finished or not: scores of each round with intervals, stages, verdicts.

    Example: noria show runs/quickstart-20260102-101500 --json
    """
    found = _open(folder)
    if report:
        from noria.web.report import write_report

        print(write_report(found))
    elif as_json:
        _print_json(cli_show.summary(found))
    else:
        cli_show.show(found, Console())


@app.command(name="eval")
def evaluate(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="builtin:tiny, a checkpoint's folder, or a run: its last promoted model."),
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[key=value…]", help="As in a recipe: eval.temperature=0.7")
    ] = None,
    env: Annotated[str, typer.Option(help="World, see `noria list envs`.")] = "microswe",
    seed: Annotated[int, typer.Option(min=0, help="Chooses the tasks and the draws.")] = 0,
    n: Annotated[int, typer.Option("--n", min=1, help="Held-out tasks.")] = 200,
    k: Annotated[int, typer.Option("--k", min=1, help="Rollouts per task; pass@1 to pass@k come of them.")] = 1,
    split: Annotated[str, typer.Option(help="heldout, unseen or train.")] = "heldout",
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint on tasks of one world.

    Example: noria eval builtin:tiny --env ledger --n 100 --k 8 --json
    """
    if split not in ("train", "heldout", "unseen"):
        raise UserError(f"--split must be train, heldout or unseen: got {split!r} - use heldout to measure")
    recipe = of_world(env, overrides or [])
    (world,) = recipe.env
    folder = cli_serve.find_model(model)
    evaluator = _heavy("noria.stages.evaluate")
    result: dict[str, Any] = evaluator.evaluate_checkpoint(recipe, folder, world, seed, n, k, split)
    if as_json:
        _print_json(result)
        return
    table = Table("measure", "value", title=f"{model} on {env}")
    for key, value in result.items():
        table.add_row("rollouts" if key == "n" else key, f"{value:.4g}" if isinstance(value, float) else str(value))
    Console().print(table)


@app.command(name="list")
def list_plugins(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="envs, losses, weights, …; all without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what `type = "…"` can name. The folder is the registry; a dotted name is your own module.

    Example: noria list losses
    """
    found = {folder: registry.entries(folder) for folder in ([kind] if kind else registry.FOLDERS)}
    if as_json:
        rows = {
            folder: [
                {
                    "name": entry.name,
                    "doc": entry.doc,
                    "keys": _keys(folder, entry),
                    "source": str(entry.source),
                    "from": entry.origin,
                }
                for entry in entries
            ]
            for folder, entries in found.items()
        }
        _print_json(rows)
        return
    table = Table("kind", "name", "what it is")
    for folder, entries in found.items():
        for entry in entries:
            said = Text(entry.doc)
            if kind and entry.origin:
                said.append(f"\n{entry.origin}", style="italic")
            if kind and (keys := _keys(folder, entry)):
                said.append(f"\nkeys: {', '.join(keys)}", style="dim")
            table.add_row(folder, Text(entry.name, no_wrap=True), said)
        if entries:
            table.add_section()
    Console().print(table)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine: versions, memory, disk, the sandbox, the built-in model; each with its fix.

    Exit code 1 if something that `noria run` needs is missing.
    """
    checks = cli_doctor.examine()
    if as_json:
        _print_json([item._asdict() for item in checks])
    else:
        cli_doctor.show(checks, Console())
    if any(item.status == "fail" for item in checks):
        raise typer.Exit(1)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 the run or the machine failed, 2 the input is wrong."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # dotted names of the user's own modules
    try:
        app()
    except UserError as fault:
        _complain(str(fault))
        raise SystemExit(2) from None
    except NoriaError as fault:
        _complain(str(fault))
        raise SystemExit(1) from fault


def _keys(folder: str, entry: registry.Entry) -> list[str]:
    return [
        key
        for key in registry.config_fields(registry.PARTS.get(folder, (folder, ""))[0], entry.name) or []
        if key != "type"
    ]


def _load(arguments: list[str]) -> Recipe:
    overrides = [text for text in arguments if "=" in text and not Path(text).is_file()]
    recipe = load([text for text in arguments if text not in overrides], overrides)
    cli_worlds.check_splits(recipe)
    cli_worlds.check_strategies(recipe)
    cli_worlds.check_lists(recipe)
    check_files(recipe)
    cli_check.check_engines(recipe)
    return recipe


def _open(folder: str) -> Run:
    named = Path("runs") / folder
    return Run.open(named if not Path(folder).exists() and named.exists() else folder)


def _work(recipe: Recipe, target: Run) -> None:
    console = Console()
    console.print(Text(f"run {target.path}"))
    try:
        with roomy(target.path, f"go on with noria resume {target.path}"), target.lock():
            loop = _heavy("noria.round")
            with LiveView(target, console):
                loop.run_recipe(recipe, target)
    except KeyboardInterrupt:
        console.print(Text(f"stopped; go on with: noria resume {target.path}"))
        raise SystemExit(130) from None
    cli_show.show(target, console, stages=False)
    report = target.path / "report.html"
    console.print(Text(f"report {report if report.exists() else target.path}"), soft_wrap=True)


def _heavy(module: str) -> ModuleType:
    """Import what needs torch."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # they would tear the live view, workers' too
    try:
        return import_module(module)
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] == "noria":
            raise
        raise UserError(
            f"this command needs the package {fault.name!r}, which is missing - install it (see noria doctor)"
        ) from fault


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))


def _complain(message: str) -> None:
    Console(stderr=True).print(Text(f"error: {message}", style="bold red"), soft_wrap=True)


if __name__ == "__main__":
    main()
