"""`noria export`: trajectories of a run as ATIF documents, for other tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from noria.core.codec import read_jsonl
from noria.core.errors import UserError
from noria.core.store import Run
from noria.core.types import Trajectory
from noria.server.record import FOLDER, collected
from noria.stages import atif
from noria.stages.lines import read_file

FILE = "trajectories.jsonl"
#: Of an id, what a file name may hold.
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


def export(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FILE|RUN",
            help="A run, its name under runs/, what serve --record wrote, or a file of trajectories.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="NAME.jsonl: one file, a line each; else a folder, a .json file each.")
    ],
    stage: Annotated[
        list[str] | None,
        typer.Option("--stage", help="As round-1/rollout; may be repeated. Default: all that hold trajectories."),
    ] = None,
    solved: Annotated[bool, typer.Option("--solved", help="Those alone that solved their task.")] = False,
) -> None:
    """Write trajectories of a run, or of recorded sessions, as ATIF: words, thoughts, calls, observations, token ids.

    `phase.NAME.data` reads what it writes, and what other tools write as ATIF.

    Example: noria export runs/quickstart-20260102-101500 --stage round-1/rollout --out rollouts.jsonl
    """
    count = write(_found(folder, stage or []), out, solved)
    print(f"{count} trajectories in {out}")


def read_source(source: str, stages: list[str]) -> Iterator[Trajectory]:
    """The trajectories of a file, of a run, or of recorded sessions; conversations of a file are passed over.

    Raises:
        UserError: there is no such thing, it is damaged, or it has no stages where some are asked for.
    """
    return (each for _, each in _found(source, stages))


def _found(source: str, stages: list[str]) -> Iterator[tuple[str, Trajectory]]:
    """Each trajectory with the name of its stage."""
    path = Path(source)
    recorded = (path / FOLDER).is_dir()
    if recorded or path.is_file():
        if stages:
            what = "recorded sessions" if recorded else "a file"
            raise UserError(f"--stage must be left out for {what}: got {', '.join(stages)} - remove it")
        if recorded:
            return (("recorded", each) for each in collected(path))
        return ((path.stem, each) for _, each in read_file(path) if isinstance(each, Trajectory))
    named = Path("runs") / source
    run = Run.open(named if not path.exists() and named.exists() else source)
    return ((name, each) for name in stages_of(run, stages) for each in read_stage(run, name))


def write(found: Iterable[tuple[str, Trajectory]], out: Path, solved: bool) -> int:
    """Write the documents of trajectories, each with the name of its stage, and return their number.

    Raises:
        UserError: `out` is there already, or cannot be written.
    """
    if out.exists():
        raise UserError(f"--out must be new: {str(out)!r} exists - name another, or remove it")
    single = out.suffix == ".jsonl"
    count = 0
    try:
        (out.parent if single else out).mkdir(parents=True, exist_ok=True)
        with (out if single else out / "index.jsonl").open("w", encoding="utf-8") as file:
            for stage, trajectory in found:
                if solved and not trajectory.solved:
                    continue
                count += 1
                text = json.dumps(atif.document(trajectory), ensure_ascii=False, allow_nan=False)
                if not single:
                    name = f"{count:06}-{_ODD.sub('_', trajectory.id)[:80]}.json"
                    (out / name).write_text(text + "\n", encoding="utf-8")
                    text = json.dumps({"file": name, "stage": stage, "trajectory_id": trajectory.id})
                file.write(text + "\n")
    except OSError as fault:
        raise UserError(
            f"--out must be a place to write to: got {str(out)!r} ({fault.strerror}) - name another"
        ) from None
    return count


def stages_of(run: Run, asked: list[str]) -> list[str]:
    """Finished stages with trajectories, in order. Raises UserError where one that is asked for has none."""
    there = sorted(
        (str(path.parent.relative_to(run.path)) for path in run.path.glob(f"round-*/*/{FILE}")),
        key=lambda name: (int(re.sub(r"\D", "", name.partition("/")[0]) or 0), name),
    )
    found = [name for name in there if run.done(name)]
    for name in asked:
        if name not in found:
            raise UserError(
                f"--stage must be one that holds trajectories: got {name!r}, expected {', '.join(found) or 'none yet'}"
            )
    return asked or found


def read_stage(run: Run, stage: str) -> list[Trajectory]:
    """The trajectories of a finished stage. Raises UserError: its file is damaged."""
    try:
        return list(read_jsonl(run.folder(stage) / FILE, Trajectory))
    except ValueError as fault:
        raise UserError(f"RUN must be whole: {fault} - `noria resume` makes the artifact anew") from fault
