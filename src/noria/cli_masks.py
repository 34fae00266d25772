"""`noria masks`: how right the rules of error masking are, against labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from noria import cli_worlds
from noria.core.errors import UserError
from noria.core.proofs import Flawed
from noria.core.types import Turn
from noria.stages.masking import CODE, RULES, Labelled, habitual, injected, measure

#: Sets of rules that `--rule` takes by one name.
SETS = {"code": CODE}


def masks(
    env: Annotated[str, typer.Option(help="World in which errors are put; see `noria list envs`.")] = "ledger",
    file: Annotated[
        Path | None, typer.Option(help='Labels of your own: JSON lines of {"turns": [\\[said, seen, label], …]}.')
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="Rule to measure, repeatable; `code` is all those for code agents. Without it each alone, and `code`."
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Tasks to put errors into.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Chooses tasks and errors.")] = 0,
    habits: Annotated[
        bool, typer.Option("--habits", help="Mistakes of the world's own scripted workers, which know them.")
    ] = False,
    solved: Annotated[bool, typer.Option("--solved", help="With --habits: of work that was solved alone.")] = False,
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Option of the world, as path=….")
    ] = None,
    sandbox: Annotated[str, typer.Option(help="Where code of tasks runs; process is NOT isolated.")] = "bwrap",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Measure precision and recall of the rules that mask erroneous turns.

    Example: noria masks --env ledger --n 200
    Example: noria masks --env microswe --habits --solved --rule code
    """
    if solved and not habits:
        raise UserError("--solved must go with --habits: got it alone - add --habits")
    if file is not None and (habits or options):
        raise UserError("--file must stand alone: got it with --habits or --set - leave them out")
    samples = read(file) if file else _made(env, n, seed, habits, solved, sandbox, options or [])
    wanted = [[name for each in rule for name in SETS.get(each, (each,))]] if rule else [[each] for each in RULES]
    wanted += [] if rule else [list(CODE)]
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
        lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as fault:
        raise UserError(f"--file must be readable: {str(path)!r} is not ({fault})") from fault
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


def _made(
    env: str, n: int, seed: int, habits: bool, solved: bool, sandbox: str, options: Sequence[str]
) -> list[Labelled]:
    with cli_worlds.opened(env, sandbox, options) as world:
        tasks = world.tasks("train", n, seed)
        if not habits:
            return injected(world, tasks, seed)
        if not isinstance(world, Flawed):
            raise UserError(f"--habits must go with a world that knows the mistakes of its workers: got {env!r}")
        chosen: Any = world
        return [sample for sample, is_solved in habitual(chosen, tasks, seed) if is_solved or not solved]


def _shown(rate: dict[str, Any]) -> str:
    if rate["value"] is None:
        return "none"
    return f"{rate['value']:.3f} ({rate['low']:.3f} to {rate['high']:.3f})"
