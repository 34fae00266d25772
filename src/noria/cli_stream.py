"""`noria tasks make` and `noria tasks prune`: tasks as streams that go on where they were stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from rich.console import Console
from rich.text import Text

from noria import cli_worlds
from noria.cli_bar import bars
from noria.cli_make import make_domains, server_of
from noria.core.disk import roomy
from noria.core.errors import UserError
from noria.core.recipe import of_world
from noria.core.recipe_phases import Difficulty
from noria.core.seeds import derive
from noria.core.types import Outcome, Split, Task
from noria.stages import prune as pruning
from noria.stages.growing import tasks_from
from noria.stages.taskstream import Wanted, grow

GO_ON = "call the command again: it goes on"

Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same tasks.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Option of the world, as path=…; may be repeated."),
]
Sandbox = Annotated[str, typer.Option(help="Where code of tasks runs; process is NOT isolated.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Sources = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SOURCE]...", help="For swe and microswe: folders, git+URL, pypi:NAME, npm:NAME."),
]


def _likeness(value: float | None) -> float | None:
    if value is not None and not 0 < value <= 1:
        raise UserError(f"--dedup must be above 0 and at most 1: got {value:g} - 0.8 is usual")
    return value


Dedup = Annotated[
    float | None,
    typer.Option("--dedup", callback=_likeness, help="Drop near duplicates: Jaccard likeness from which on, as 0.8."),
]
Domains = Annotated[
    int | None, typer.Option("--domains", min=1, max=10_000, help="Make so many domains of WORLD, not tasks.")
]
Propose = Annotated[
    str | None, typer.Option("--propose", metavar="URL", help="With --domains, swe: server whose model writes them.")
]
KeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", metavar="VAR", help="With --propose: variable that holds the key.")
]
Operators = Annotated[
    list[str] | None, typer.Option("--operators", help="For swe: kind of bug to use; may be repeated.")
]
Languages = Annotated[list[str] | None, typer.Option("--language", help="For swe: language to use; may be repeated.")]
Evaluation = Annotated[
    list[Path] | None, typer.Option("--decontaminate", help="For swe: file with a held-out task on each line.")
]
History = Annotated[
    int | None, typer.Option("--history", min=1, max=10_000, help="For swe: commits of each repository to take back.")
]
Worded = Annotated[bool, typer.Option("--worded", help="For swe: the model of --propose words the statements.")]
Unseen = Annotated[
    list[str] | None, typer.Option("--unseen", help="For microswe: package kept for the split unseen; may be repeated.")
]


def make(
    out: Annotated[Path, typer.Option("--out", help="JSONL file to write, one task per line; domains, swe: a folder.")],
    world: Annotated[str | None, typer.Argument(metavar="[WORLD]", help="World, see `noria list envs`.")] = None,
    sources: Sources = None,
    env: Annotated[str | None, typer.Option("--env", help="The same as WORLD.")] = None,
    n: Annotated[int | None, typer.Option("--n", min=1, max=10**8, help="Tasks to keep. Default: 256.")] = None,
    dedup: Dedup = None,
    compared: Annotated[str, typer.Option("--compared", help="What is compared: content or prompt.")] = "content",
    proved: Annotated[bool, typer.Option("--proved", help="Keep only tasks that prove themselves.")] = False,
    domains: Domains = None,
    propose: Propose = None,
    model: Annotated[str | None, typer.Option("--model", help="With --propose: the model's name there.")] = None,
    key_env: KeyEnv = None,
    operators: Operators = None,
    languages: Languages = None,
    evaluation: Evaluation = None,
    history: History = None,
    worded: Worded = False,
    unseen: Unseen = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, max=999, help="For swe: proofs at a time.")] = None,
    seed: Seed = 0,
    split: Annotated[str, typer.Option("--split", help="train, heldout or unseen.")] = "train",
    options: Options = None,
    sandbox: Sandbox = "bwrap",
    as_json: AsJson = False,
) -> None:
    """Write distinct tasks of a world to a JSONL file; or make a world's domains, tested in the sandbox, into a folder.

    All go on where they were stopped or killed when they are called again; a greater --n goes on, too.

    Example: noria tasks make ledger --n 1000 --out ledger.jsonl
    Example: noria tasks make instructions --n 100000 --dedup 0.8 --out tasks.jsonl
    Example: noria tasks make tooluse --domains 200 --out domains --seed 0
    Example: noria tasks make tooluse --domains 20 --out proposed --propose http://127.0.0.1:8000/v1 --model NAME
    Example: noria tasks make swe pypi:toolz ./mypackage --n 200 --out swe
    Example: noria tasks make swe ./checkout --history 200 --propose http://127.0.0.1:8000/v1 --model NAME --out swe
    Example: noria tasks make microswe pypi:algorithms --out functions
    """
    name = _named(world, env, out)
    given = (sources or [], operators or [], languages or [], evaluation or [])
    streamed = _streamed(options, dedup, domains, proved, split, compared)
    if name == "swe" and (any(given) or not options):
        _none_of({**streamed, "--unseen": unseen}, "swe")
        from noria.cli_swe import make_swe  # parsers of many languages: not before they are needed

        server = server_of(propose, model, key_env)
        make_swe(out, n or 256, seed, *given, workers, sandbox, as_json, history or 0, server, worded)
        return
    if name == "microswe" and sources and not (any(given[1:]) or workers or history or worded):
        _none_of({**streamed, "--n": n, "--propose": propose}, "microswe")
        from noria.cli_functions import make_functions

        make_functions(out, seed, sources, unseen or [], sandbox, as_json)
        return
    if any(given) or workers or unseen or history or worded:
        raise UserError(f"SOURCE and the options of swe must go with swe: got them with {name!r} - leave them out")
    server = server_of(propose, model, key_env)
    if domains is not None:
        if n is not None or dedup is not None:
            raise UserError("--domains must stand alone: got it with --n or --dedup - make the domains first")
        make_domains(name, out, domains, seed, sandbox, as_json, server)
        return
    _check_stream(server, compared, split)
    identity = " ".join([name, *sorted(options or [])])
    what = cast(Literal["content", "prompt"], compared)
    wanted = Wanted(identity, cast(Split, split), seed, n or 256, dedup, what, proved=proved)
    _grown(name, wanted, out, sandbox, options or [], as_json)


def _streamed(
    options: list[str] | None, dedup: float | None, domains: int | None, proved: bool, split: str, compared: str
) -> dict[str, object]:
    """Options of streams by name, with what is true of those that were given."""
    return {
        "--set": options, "--dedup": dedup, "--domains": domains, "--proved": proved, "--split": split != "train",
        "--compared": compared != "content",
    }  # fmt: skip


def _check_stream(server: object, compared: str, split: str) -> None:
    if server is not None:
        raise UserError(
            "--propose must go with --domains or swe: got it alone - a model proposes domains or bugs, not tasks"
        )
    if compared not in ("content", "prompt"):
        raise UserError(f"--compared must be content or prompt: got {compared!r}")
    if split not in ("train", "heldout", "unseen"):
        raise UserError(f"--split must be train, heldout or unseen: got {split!r}")


def _none_of(given: Mapping[str, object], name: str) -> None:
    """Raises UserError: an option was given that means nothing where tasks are made of sources."""
    for option, value in given.items():
        if value:
            raise UserError(f"{option} must not go with {name} and SOURCE: got both - leave it out")


def _grown(name: str, wanted: Wanted, out: Path, sandbox: str, options: Sequence[str], as_json: bool) -> None:
    """Grow the file and print its report. Raises UserError where the world holds fewer tasks than are wanted."""
    started = time.monotonic()
    with (
        cli_worlds.opened(name, sandbox, options) as opened,
        bar(f"{name} {wanted.split}", wanted.n, out, as_json) as advance,
    ):
        check = (lambda task: _refusal(opened, task)) if wanted.proved else (lambda task: "")
        report = grow(opened, out, wanted, check, advance)
    _print(report | {"seconds": round(time.monotonic() - started, 1)}, as_json)
    if report["used_up"]:
        raise UserError(
            f"--n must be at most what the world holds: got {wanted.n}, found {report['tasks']} new ones, then none in "
            f"{report['drawn']} draws - ask for fewer, raise --dedup, or widen the world's options by --set"
        )


def _named(world: str | None, env: str | None, out: Path) -> str:
    """The one world that was named. Raises UserError, also where `out` has no folder to lie in."""
    if not out.parent.is_dir():
        raise UserError(f"--out must lie in an existing folder: got {str(out)!r} - make {str(out.parent)!r} first")
    if (world is None) == (env is None):
        raise UserError("make must be told one world: got both or none - give WORLD or --env")
    return world or env or ""


def prune(
    tasks: Annotated[Path, typer.Argument(metavar="TASKS", help="JSONL file of noria tasks make.")],
    out: Annotated[Path, typer.Option("--out", help="JSONL file for the tasks that are kept.")],
    env: Annotated[str, typer.Option("--env", help="World of the tasks, see `noria list envs`.")],
    model: Annotated[
        str | None,
        typer.Option("--model", help="Who plays: a checkpoint, as in noria eval. Default: scripted habits."),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option("--strategy", help="The one habit that plays. Default: all, by their weights.")
    ] = None,
    rollouts: Annotated[int, typer.Option("--rollouts", min=2, max=1024, help="Of each task.")] = 8,
    low: Annotated[float, typer.Option("--low", min=0, max=1, help="Least pass rate that is kept.")] = 0.1,
    high: Annotated[float, typer.Option("--high", min=0, max=1, help="Greatest pass rate that is kept.")] = 0.9,
    seed: Seed = 0,
    options: Options = None,
    sandbox: Sandbox = "bwrap",
    as_json: AsJson = False,
) -> None:
    """Keep the tasks that a policy solves sometimes: pass_rate@8 in a band. Goes on where it was stopped or killed.

    Beside --out, FILE.rates has the pass rate of every task.

    Example: noria tasks prune tasks.jsonl --env instructions --model builtin:tiny --out moderate.jsonl
    """
    if not out.parent.is_dir():
        raise UserError(f"--out must lie in an existing folder: got {str(out)!r} - make {str(out.parent)!r} first")
    if model is not None and strategy is not None:
        raise UserError("--strategy must stand without --model: got both - choose who plays")
    if low > high:
        raise UserError(f"--low must be at most --high: got {low:g} and {high:g} - exchange them")
    band = Difficulty(rollouts=rollouts, low=low, high=high)
    settings = {"world": " ".join([env, *sorted(options or [])]), "model": model, "strategy": strategy, "seed": seed}
    total = sum(1 for _ in tasks_from(tasks, 0)) if tasks.is_file() else 0
    started = time.monotonic()
    with (
        _policy(env, model, strategy, band, seed, options or (), sandbox) as roll,
        bar(f"{env} pass_rate@{rollouts}", total, out, as_json) as advance,
    ):
        report = pruning.prune(tasks, out, band, settings, roll, advance)
    _print(report | {"seconds": round(time.monotonic() - started, 1)}, as_json)


def _refusal(world: cli_worlds.ProvableWorld, task: Task) -> str:
    return "; ".join(refusal.reason for refusal in cli_worlds.prove(world, [task]))


@contextmanager
def _policy(
    env: str, model: str | None, strategy: str | None, band: Difficulty, seed: int, options: Sequence[str], sandbox: str
) -> Iterator[pruning.Roll]:
    if model is None:
        with cli_worlds.opened(env, sandbox, options) as world:
            yield pruning.by_habits(world, band.rollouts, seed, strategy)
        return
    with _by_model(env, model, band.rollouts, seed, options, sandbox) as roll:
        yield roll


@contextmanager
def _by_model(
    env: str, model: str, rollouts: int, seed: int, options: Sequence[str], sandbox: str
) -> Iterator[pruning.Roll]:
    """Rollouts of a checkpoint, as `noria eval` makes them: at the temperature and within the limits of training."""
    from noria.cli_serve import find_model
    from noria.models.weights import read
    from noria.stages.roller import Job, Limits
    from noria.stages.worker import Pool

    table = env.rpartition(".")[2]
    recipe = of_world(env, [f"sandbox.type={sandbox}", *(f"env.{table}.{option}" for option in options)])
    folder = find_model(model)
    pool = Pool(recipe, folder)
    try:
        pool.load(read(folder), 0, recipe.rollout.temperature, Limits.of(recipe.rollout))

        def roll(tasks: Sequence[Task]) -> list[list[Outcome]]:
            pruning.check_world(tasks, table)
            jobs = [Job(f"{t.id}/prune/{k}", t, derive(seed, "prune", t.id, k)) for t in tasks for k in range(rollouts)]
            found: dict[str, list[Outcome]] = {task.id: [] for task in tasks}
            for trajectory in pool.run(jobs):
                found[trajectory.task.id].append(trajectory.outcome)
            return [found[task.id] for task in tasks]

        yield roll
    finally:
        pool.close()


@contextmanager
def bar(name: str, total: int, out: Path, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar, and one message each for a full disk and for Ctrl-C."""
    try:
        with roomy(out.parent, GO_ON), bars(quiet) as shown:
            yield shown.row(name, total)
    except KeyboardInterrupt:
        Console(stderr=True).print(Text(f"stopped; {GO_ON}"))
        raise SystemExit(130) from None


def _print(report: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report, indent=1))
        return
    dropped = ", ".join(f"{count} {reason}" for reason, count in report["dropped"].items() if count)
    seen = report.get("drawn", report.get("measured"))
    print(
        f"{report['tasks']} tasks in {report['file']}, of {seen}; dropped: {dropped or 'none'}; {report['seconds']} s"
    )
