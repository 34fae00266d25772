"""`noria tasks`: prove, list, write and show the tasks of a world."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria import cli_formats, cli_grading, cli_stream, cli_worlds
from noria.cli_bar import bars
from noria.core import admission, registry
from noria.core.codec import to_json
from noria.core.errors import UserError
from noria.core.proofs import Noting
from noria.core.types import Split, Task

SHOWN = 20
#: Tasks that are drawn to show one, at most.
MOST = 10**6

#: Times that the solution and nothing at all are played unless --repeats says otherwise: most of what is flaky shows.
PROOFS = 2
#: Kinds of attempts, and what a world that has none leaves open.
ATTEMPTS = {
    "gold": "nobody has solved its tasks",
    "no-op": "nobody has done nothing",
    "wrong": "no wrong work was graded",
    "forged": "its verifier is not proven against deceit",
    "leak": "it names no secret, so none was looked for in what is shown",
}

app = typer.Typer(no_args_is_help=True, help="Prove, list, write and show the tasks of worlds.")
app.command()(cli_stream.make)
app.command()(cli_stream.prune)
app.command()(cli_grading.types)
app.command(name="import")(cli_formats.import_tasks)
app.command(name="export")(cli_formats.export_tasks)

Env = Annotated[str, typer.Option("--env", help="World, see `noria list envs`.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same tasks.")]
OneSplit = Annotated[str, typer.Option("--split", help="train, heldout or unseen.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Option of the world, as path=…; may be repeated."),
]
Sandbox = Annotated[str, typer.Option(help="Where code of tasks runs; process is NOT isolated.")]


@app.command()
def validate(
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="World; may be repeated. Default: all that need nothing from outside."),
    ] = None,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Tasks per split. Default: a round's.")] = None,
    seed: Seed = 0,
    split: Annotated[list[str] | None, typer.Option("--split", help="May be repeated. Default: all.")] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats",
            min=1,
            help="Play each proof so often; flaky: not alike. Default: 2 for the solution and nothing, 1 for the rest.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write the refused and flaky tasks to, for env.NAME.admitted.")
    ] = None,
    options: Options = None,
    sandbox: Sandbox = "bwrap",
    as_json: AsJson = False,
) -> None:
    """Prove every task: its reference solution scores 1, doing nothing scores less, wrong habits are graded, deceit
    never scores 1 and nothing shown gives the solution away, each in all repeats. Exit code 1 if one fails.

    Example: noria tasks validate --env microswe --n 64 --split heldout --repeats 5
    """
    if options and len(env or []) != 1:
        raise UserError(f"--set must go with one world: got {len(env or [])} - name it by --env")
    names = env or cli_worlds.self_contained()
    for name in names:
        registry.source("envs", name)
    looked: list[admission.Looked] = []
    rows: list[dict[str, Any]] = []
    for name in names:
        rows += _validate(name, n, seed, split, sandbox, options, as_json, repeats, looked)
    refused, flaky = (sum(len(row[kind]) for row in rows) for kind in ("refused", "flaky"))
    if out is not None:
        admission.write(out, looked)
    warnings = _warnings(rows)
    if as_json:
        print(json.dumps({"worlds": rows, "refused": refused, "flaky": flaky, "warnings": warnings}, indent=2))
    else:
        _print_validation(rows, Console())
        for warning in warnings:
            Console().print(Text(f"warning: {warning}", "yellow"), soft_wrap=True)
    if refused or flaky:
        raise typer.Exit(1)


@app.command(name="list")
def list_tasks(
    env: Env,
    n: Annotated[int, typer.Option("--n", min=1)] = 10,
    seed: Seed = 0,
    split: OneSplit = "train",
    options: Options = None,
    as_json: AsJson = False,
) -> None:
    """List tasks: id and prompt.

    Example: noria tasks list --env ledger --n 5
    """
    with cli_worlds.opened(env, options=options or ()) as world:
        tasks = cli_worlds.draw(world, split, n, seed)
    if as_json:
        facts = {"world": env, "split": split, "seed": seed}
        print(json.dumps(facts | {"tasks": [{"id": task.id, "prompt": task.prompt} for task in tasks]}, indent=2))
        return
    table = Table("id", "prompt")
    for task in tasks:
        table.add_row(task.id, Text(task.prompt))
    Console().print(table)


@app.command()
def show(
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="Id, or index in the list of the seed.")],
    env: Env,
    seed: Seed = 0,
    split: OneSplit = "train",
    n: Annotated[int, typer.Option("--n", min=1, help="How many tasks to search for the id.")] = 1024,
    options: Options = None,
    sandbox: Sandbox = "bwrap",
    as_json: AsJson = False,
) -> None:
    """Show one task: what the model sees, and the reference solution played out.

    Example: noria tasks show 0 --env ledger
    """
    with cli_worlds.opened(env, sandbox, options or ()) as world:
        count = int(task_id) + 1 if task_id.isdecimal() else n
        if count > MOST:
            raise UserError(f"TASK must be below {MOST} where it is an index: got {task_id} - name the task by its id")
        task = _find(cli_worlds.draw(world, split, count, seed), task_id)
        if as_json:
            print(json.dumps(to_json(task), indent=2))
            return
        lines = [f"id      {task.id}", f"system  {task.system}", f"prompt  {task.prompt}"]
        lines += [f"tool    {tool.name}({', '.join(tool.parameters)}): {tool.description}" for tool in task.tools]
        lines += ["", "reference:"] + _transcript(world, task)
    Console().print(Text("\n".join(lines)), soft_wrap=True)


def _validate(
    env: str, n: int | None, seed: int, splits: list[str] | None, sandbox: str, options: list[str] | None, quiet: bool,
    repeats: int | None, looked: list[admission.Looked],
) -> list[dict[str, Any]]:  # fmt: skip
    proofs, others = repeats or PROOFS, repeats or 1
    rows: list[dict[str, Any]] = []
    with cli_worlds.opened(env, sandbox, options or ()) as world, bars(quiet) as shown:
        count = n or cli_worlds.default_tasks(env, options or ())
        drawn = {split: cli_worlds.draw(world, split, count, seed) for split in splits or world.splits}
        clashes = cli_worlds.overlaps(drawn)
        for split, tasks in drawn.items():
            advance, done = shown.row(f"{env} {split}", 3 * len(tasks)), itertools.count(1)
            refused = cli_worlds.consistent(world, split, tasks, seed)
            if not rows:
                refused += cli_worlds.left_out(world)
            refused += [clash for clash in clashes if clash.id in {task.id for task in tasks}]
            step = lambda advance=advance, done=done: advance(next(done))  # noqa: E731
            refused += cli_worlds.prove(world, tasks, step, proofs)
            misled, wrong = cli_worlds.mislead(world, tasks, step, others)
            deceived, forged = cli_worlds.guard(world, tasks, step, others)
            played = proofs * len(tasks)
            secrets = cli_worlds.sought(world, tasks)
            counts = (played, played, *(others * number for number in (wrong, forged, secrets)))
            facts = {"world": env, "split": split, "tasks": len(tasks), "seed": seed, "repeats": proofs}
            found: dict[str, list[dict[str, str]]] = {"refused": [], "flaky": []}
            for refusal in [*refused, *misled, *deceived]:
                found["flaky" if refusal.flaky else "refused"].append({"id": refusal.id, "reason": refusal.reason})
            looked.append(admission.looked_at(env, cast(Split, split), seed, tasks, found["refused"], found["flaky"]))
            noted = world.notes() if isinstance(world, Noting) and not rows else []
            notes = [{"id": id_, "note": note} for id_, note in noted]
            attempts = dict(zip(ATTEMPTS, counts, strict=True))
            rows.append(facts | {"forged": forged, "attempts": attempts} | found | {"notes": notes})
    return rows


def _warnings(rows: list[dict[str, Any]]) -> list[str]:
    """The kinds of attempts that a world has none of, in words."""
    found: list[str] = []
    for world in dict.fromkeys(row["world"] for row in rows):
        for kind, unproven in ATTEMPTS.items():
            if not sum(row["attempts"][kind] for row in rows if row["world"] == world):
                found.append(f"{world} has 0 attempts of the kind {kind}: {unproven}")
    return found


def _print_validation(rows: list[dict[str, Any]], console: Console) -> None:
    for world in dict.fromkeys(row["world"] for row in rows):
        # One table each: the columns that matter are whole on 80 columns then.
        table = Table(title=Text(world, no_wrap=True), title_justify="left", title_style="bold")
        for name in ("split", "tasks", *ATTEMPTS, "refused", "flaky"):
            table.add_column(name, justify="left" if name == "split" else "right", no_wrap=True)
        for row in (each for each in rows if each["world"] == world):
            counts = [Text(str(len(row[kind])), "red" if row[kind] else "green") for kind in ("refused", "flaky")]
            tried = [str(row["attempts"][kind]) for kind in ATTEMPTS]
            table.add_row(row["split"], str(row["tasks"]), *tried, *counts)
        console.print(table)
    for row in rows:
        found = [*row["refused"], *row["flaky"]]
        for refusal in found[:SHOWN]:
            console.print(Text(f"{refusal['id'] or row['world']}: {refusal['reason']}"), soft_wrap=True)
        if len(found) > SHOWN:
            console.print(Text(f"… and {len(found) - SHOWN} more of {row['world']} {row['split']} (see --json)"))
        for note in row["notes"][:SHOWN]:
            console.print(Text(f"{note['id']}: {note['note']}", "dim"), soft_wrap=True)
        if len(row["notes"]) > SHOWN:
            console.print(Text(f"… and {len(row['notes']) - SHOWN} notes more (see --json)", "dim"))


def _find(tasks: list[Task], wanted: str) -> Task:
    if wanted.isdecimal():
        return tasks[int(wanted)]
    for task in tasks:
        if task.id == wanted:
            return task
    raise UserError(
        f"TASK must be an id or an index: got {wanted!r}, not among {len(tasks)} tasks - give its --seed and --split"
    )


def _transcript(world: cli_worlds.ProvableWorld, task: Task) -> list[str]:
    lines: list[str] = []
    episode = world.open(task)
    try:
        for message in world.reference(task):
            seen = episode.act(message)
            lines += [f"> {message}", *([seen.text] if seen.text else [])]
            if seen.done:
                break
        lines.append(f"reward  {episode.grade().reward}")
    finally:
        episode.close()
    return lines
