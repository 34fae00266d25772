"""`noria tasks import` and `export`: task folders of other harnesses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria import cli_worlds
from noria.core import registry
from noria.core.errors import UserError
from noria.core.packages import Packer
from noria.core.recipe_tables import SandboxTable

if TYPE_CHECKING:  # every command would wait for it
    from noria.envs.harbor.admission import Admission

FORMATS = ("harbor",)
#: Forms that tasks of the world swe alone have: rows in a file.
ROWS = ("swe-bench", "swe-smith")

Format = Annotated[str, typer.Argument(metavar="FORMAT", help=f"One of: {', '.join(FORMATS)}.")]
Written = Annotated[
    str,
    typer.Argument(metavar="FORMAT", help=f"One of: {', '.join(FORMATS)}; for the world swe {', '.join(ROWS)} too."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def import_tasks(
    format_: Format,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A task folder, or a folder of them.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Write those that are admitted here, old keys renamed.")
    ] = None,
    prove: Annotated[
        int, typer.Option("--prove", min=0, max=100, help="Play solution, idling and deceit so many times.")
    ] = 0,
    variables: Annotated[
        list[str] | None,
        typer.Option("--variable", metavar="NAME=VALUE", help="For ${NAME} in a task; may be repeated."),
    ] = None,
    sandbox: Annotated[str, typer.Option(help="Where they run.")] = "bwrap",
    as_json: AsJson = False,
) -> None:
    """Read task folders, say which can be worked on here and why others cannot. Exit code 1 if one is refused.

    Example: noria tasks import harbor tasks/ --prove 3 --out admitted/
    """
    from noria.envs.harbor.admission import admit
    from noria.envs.harbor.folder import find_folders, read_folder, write_folder

    _check_format(format_)
    given = dict(_pair(each) for each in variables or [])
    found = [admit(read_folder(each), given) for each in find_folders(folder)]
    if prove:
        _prove(folder, found, prove, given, sandbox)
    if out is not None:
        for each in found:
            if not each.reasons:
                write_folder(each.folder, out / each.folder.name.rpartition("/")[2])
    rows = [
        {
            "task": each.folder.name,
            "steps": len(each.folder.steps) or 1,
            "refused": each.reasons,
            "notes": each.notes,
        }
        for each in found
    ]
    if as_json:
        print(json.dumps({"tasks": rows, "refused": sum(bool(each.reasons) for each in found)}, indent=2))
    else:
        _print(rows, Console())
    if any(each.reasons for each in found):
        raise typer.Exit(1)


def export_tasks(
    format_: Written,
    env: Annotated[str, typer.Option("--env", help="swe, or a world whose tasks need a shell alone, as microswe.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write task folders into.")],
    n: Annotated[int, typer.Option("--n", min=1)] = 16,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same tasks.")] = 0,
    split: Annotated[str, typer.Option("--split", help="train, heldout or unseen.")] = "train",
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Option of the world; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write tasks of a world as folders that other harnesses run.

    Example: noria tasks export harbor --env microswe --n 100 --out folders/
    Example: noria tasks export swe-bench --env swe --set path=swe --n 100 --out rows.jsonl
    """
    if env == "swe":
        _export_swe(format_, out, n, seed, split, options or [], as_json)
        return
    from noria.envs.harbor.folder import write_folder
    from noria.envs.harbor.packing import folder_of

    _check_format(format_)
    packer = packer_of(env)
    with cli_worlds.opened(env, options=options or ()) as world:
        tasks = cli_worlds.draw(world, split, n, seed)
    for task in tasks:
        write_folder(folder_of(task, packer(task)), out / task.id)
    print(json.dumps({"tasks": len(tasks), "folder": str(out)}) if as_json else f"{len(tasks)} tasks in {out}")


def _export_swe(format_: str, out: Path, n: int, seed: int, split: str, options: list[str], as_json: bool) -> None:
    """Tasks of a dataset of the factory: as folders, or as rows of a file."""
    from noria.envs.swe.world import Swe
    from noria.factory.writers import harbor, swe_bench, swe_smith

    known = (*FORMATS, *ROWS)
    if format_ not in known:
        raise UserError(f"FORMAT must be one of {', '.join(known)}: got {format_!r}{registry.nearest(format_, known)}")
    with cli_worlds.opened("swe", options=options) as world:
        tasks = cli_worlds.draw(world, split, n, seed)
        assert isinstance(world, Swe)
        records = [world.found(task) for task in tasks]
        dataset = world.dataset
    if format_ in ROWS:
        write = swe_bench.row if format_ == "swe-bench" else swe_smith.row
        out.write_text("".join(json.dumps(write(dataset, each)) + "\n" for each in records), encoding="utf-8")
    else:
        for each in records:
            harbor.write(dataset, each, out)
    print(json.dumps({"tasks": len(tasks), "out": str(out)}) if as_json else f"{len(tasks)} tasks in {out}")


def packer_of(env: str) -> Packer:
    """What makes folders of a world's tasks. Raises UserError: the world has none."""
    found = cast(Packer | None, vars(registry.resolve("envs", env)).get("package"))
    if found is None:
        raise UserError(
            f"--env must be a world whose tasks a shell alone can solve: got {env!r}, whose module has no `package` - "
            "use microswe"
        )
    return found


def _prove(folder: Path, found: list[Admission], times: int, variables: dict[str, str], sandbox: str) -> None:
    """Play each admitted task; what fails becomes a reason."""
    from noria.envs import harbor

    by_name = {each.folder.name: each for each in found}
    lazy = cli_worlds.LazySandbox(SandboxTable(type=sandbox))
    world = harbor.build(harbor.Config(path=str(folder), variables=variables), lazy)
    try:
        tasks = [task for split in world.splits if world.admitted for task in world.tasks(split, len(found), 0)]
        refused = cli_worlds.prove(world, tasks, repeats=times)
        refused += cli_worlds.guard(world, tasks)[0]
        names = {task.id: str(task.data["name"]) for task in tasks}
        for one in refused:
            reasons = by_name[names[one.id]].reasons
            if one.reason not in reasons:
                reasons.append(one.reason)
    finally:
        world.close()
        lazy.close()


def _print(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table("task", "steps", "admitted", "why not; what is passed over")
    for row in rows:
        said = Text("\n".join(row["refused"]), "red")
        said.append(("\n" if row["refused"] and row["notes"] else "") + "\n".join(row["notes"]), "dim")
        table.add_row(Text(row["task"]), str(row["steps"]), "no" if row["refused"] else "yes", said)
    console.print(table)


def _check_format(name: str) -> None:
    if name not in FORMATS:
        raise UserError(f"FORMAT must be one of {', '.join(FORMATS)}: got {name!r}{registry.nearest(name, FORMATS)}")


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UserError(f"--variable must be NAME=VALUE: got {text!r} - write for instance TOKEN=abc")
    return name, value
