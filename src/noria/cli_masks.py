"""`noria masks`: how right the rules of error masking are, against labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from noria.core.errors import UserError
from noria.core.recipe import of_world
from noria.core.types import Turn
from noria.stages.masking import RULES, Labelled, injected, measure


def masks(
    env: Annotated[str, typer.Option(help="World in which errors are put; see `noria list envs`.")] = "ledger",
    file: Annotated[
        Path | None, typer.Option(help='Labels of your own instead: JSON lines of {"turns": [[said, seen, label], …]}.')
    ] = None,
    rule: Annotated[
        list[str] | None, typer.Option(help="Rule to measure, repeatable; each one alone without it.")
    ] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Tasks to put errors into.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Chooses tasks and errors.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Measure precision and recall of the rules that mask erroneous turns.

    Example: noria masks --env ledger --n 200
    """
    samples = read(file) if file else _made(env, n, seed)
    wanted = [list(rule)] if rule else [[name] for name in RULES]
    found = [measure(samples, rules) for rules in wanted]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for facts in found:
        parts = [f"{key} {_shown(facts[key])}" for key in ("precision", "recall")]
        parts += [f"{fault} {_shown(value)}" for fault, value in facts["recall_by_fault"].items()]
        print(f"{'+'.join(facts['rules'])}: {facts['masked']} of {facts['turns']} turns; {'; '.join(parts)}")


def read(path: Path) -> list[Labelled]:
    """A labelled set: each line holds turns of [what was said, what came back, the label or ""].

    Raises:
        UserError: the file or a line is not like that.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except OSError as fault:
        raise UserError(f"--file must be readable: {str(path)!r} is not ({fault.strerror})") from fault
    out = []
    for number, line in enumerate(lines, 1):
        try:
            turns = [(str(said), str(seen), str(label)) for said, seen, label in json.loads(line)["turns"]]
        except (ValueError, KeyError, TypeError) as fault:
            raise UserError(f'{path}:{number} must be {{"turns": [[said, seen, label], …]}}: {fault}') from fault
        out.append(
            Labelled(f"{path}:{number}", tuple(Turn(a, b) for a, b, _ in turns), tuple(label for _, _, label in turns))
        )
    return out


def _made(env: str, n: int, seed: int) -> list[Labelled]:
    recipe = of_world(env)
    from noria.stages.worker import open_worlds

    worlds, sandbox = open_worlds(recipe)
    try:
        (world,) = worlds.values()
        return injected(world, world.tasks("train", n, seed), seed)
    finally:
        for world in worlds.values():
            world.close()
        if sandbox is not None:
            sandbox.close()


def _shown(rate: dict[str, Any]) -> str:
    if rate["value"] is None:
        return "none"
    return f"{rate['value']:.3f} ({rate['low']:.3f} to {rate['high']:.3f})"
