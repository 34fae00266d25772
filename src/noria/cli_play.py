"""`noria play`: tasks of a world, played by one policy over one or several scaffolds, as trajectories with tokens.

A scaffold is what stands between policy and world: a form of calls in the house's own loop, or a harness of somebody
else's. Task and verifier stay the same, and every trajectory names its scaffold.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria import cli_make, cli_serve, cli_stream, cli_worlds
from noria.bases.asked import AskedWorld
from noria.core import registry
from noria.core.errors import EngineError, UserError
from noria.core.protocols import World
from noria.core.recipe import Recipe, of_world
from noria.core.seeds import derive
from noria.core.strategies import strategy_of
from noria.core.types import Message, Task, Trajectory
from noria.stages.growing import Growing
from noria.stages.jobs import Job, Limits
from noria.tokens.forms import NAMES, canonical

#: Who is asked has no strategy: this stands for it.
ASKED = "asked"
#: What a scripted policy, or one that is asked, may use: the bounds of `noria filter`.
WIDE = (
    "rollout.max_turns=300", "rollout.max_tokens=262144", "rollout.max_new_tokens=32768",
    "student.engine.max_tokens=262144",
)  # fmt: skip
#: Rollouts between two commits where a model plays many at a time.
BATCH = 32
#: Characters that are told of why an outcome is unknown.
WIDTH = 160

Plays = Callable[[Sequence[Job]], list[Trajectory]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call of the command wants. `policy` is a strategy, a model or an address, as `kind` says."""

    policy: str
    kind: str
    env: str
    overrides: tuple[str, ...]
    options: tuple[str, ...]
    harness: tuple[str, ...]
    sandbox: str
    tokens: str
    seed: int
    model: str | None
    key_env: str | None


def play(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="A strategy of the world, a model as in noria eval, or a URL.")
    ],
    out: Annotated[Path, typer.Option("--out", help="NAME.jsonl: trajectories; called again, it goes on.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[key=value…]", help="As in a recipe: rollout.max_turns=40")
    ] = None,
    env: Annotated[str, typer.Option(help="World, see `noria list envs`.")] = "microswe",
    scaffold: Annotated[
        list[str] | None,
        typer.Option(help="xml, hermes, qwen, or a harness of `noria list harnesses`; may be repeated. Default: xml."),
    ] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Tasks.")] = 16,
    k: Annotated[int, typer.Option("--k", min=1, help="Rollouts of each task over each scaffold.")] = 1,
    split: Annotated[str, typer.Option(help="train, heldout or unseen.")] = "train",
    seed: Annotated[int, typer.Option(min=0, help="Chooses the tasks and the draws.")] = 0,
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Option of the world, as path=….")
    ] = None,
    harness: Annotated[
        list[str] | None, typer.Option("--harness", metavar="KEY=VALUE", help="Option of harnesses, as timeout_s=….")
    ] = None,
    tokens: Annotated[
        str, typer.Option(help="Model whose tokens and template are recorded where no checkpoint plays.")
    ] = "builtin:tiny",
    model: Annotated[str | None, typer.Option("--model", help="With a URL: the model's name there.")] = None,
    key_env: Annotated[
        str | None, typer.Option("--api-key-env", metavar="VAR", help="With a URL: variable that holds the key.")
    ] = None,
    sandbox: Annotated[str, typer.Option(help="Where code of tasks runs; process is NOT isolated.")] = "bwrap",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Play tasks with one policy over scaffolds; each trajectory has its tokens, its outcome and its scaffold.

    Example: noria play careful --env microswe --scaffold xml --scaffold hermes --n 32 --out rollouts.jsonl
    Example: noria play edits --env swe --set path=DIR --scaffold mini_swe_agent --n 8 --out rollouts.jsonl
    """
    if out.suffix != ".jsonl" or not out.parent.is_dir():
        raise UserError(f"--out must be NAME.jsonl in an existing folder: got {str(out)!r} - name another")
    scaffolds = list(dict.fromkeys(scaffold or ["xml"]))
    for each in scaffolds:
        _check_scaffold(each)
    if harness and all(each in NAMES for each in scaffolds):
        raise UserError("--harness must go with a scaffold that is a harness: got forms of calls alone - leave it out")
    started = time.monotonic()
    with cli_worlds.opened(env, sandbox, options or []) as world:
        kind = _kind(policy, model, world)
        name = env.rpartition(".")[2]  # which recipes know it by
        want = Asked(
            policy, kind, env, tuple(overrides or ()), tuple(options or ()), tuple(harness or ()), sandbox, tokens,
            seed, model, key_env,
        )  # fmt: skip
        tasks = [replace(task, world=name) for task in cli_worlds.draw(world, split, n, seed)]
        settings = {
            "policy": policy, "model": model, "world": " ".join([env, *sorted(options or [])]), "split": split, "n": n,
            "k": k, "seed": seed, "scaffolds": scaffolds, "overrides": overrides or [],
            "harness": harness or [], "tokens": tokens,
        }  # fmt: skip
        total = len(tasks) * k * len(scaffolds)
        with Growing(out, settings) as file, cli_stream.bar(f"{env} {policy}", total, out, as_json) as advance:
            facts = _grown(file, want, world, scaffolds, tasks, k, advance)
    facts |= {"file": str(out), "seconds": round(time.monotonic() - started, 1)}
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    _print(facts, f"{policy} on {env}")


def _print(facts: dict[str, Any], title: str) -> None:
    """A row for each scaffold, and why outcomes are unknown."""
    table = Table("scaffold", "rollouts", "solved", "unknown", "turns", "tokens", title=title)
    for name, row in facts["scaffolds"].items():
        table.add_row(name, *(str(row[key]) for key in ("n", "solved", "unknown", "turns", "tokens")))
    console = Console()
    console.print(table)
    for name, row in facts["scaffolds"].items():
        for reason, count in row["why"].items():
            console.print(Text(f"{name}: {count} unknown: {reason}", "yellow"), soft_wrap=True)


def _grown(
    file: Growing, want: Asked, world: World, scaffolds: Sequence[str], tasks: Sequence[Task], k: int,
    advance: Callable[[int], None],
) -> dict[str, Any]:  # fmt: skip
    """Play what the file lacks; what all of it holds, by scaffold."""
    state: dict[str, Any] = {"scaffolds": {}} | file.state
    before = 0
    for name in scaffolds:
        row = state["scaffolds"].setdefault(
            name, {"n": 0, "solved": 0, "unknown": 0, "turns": 0, "tokens": 0, "why": {}}
        )
        jobs = [_job(want, world, task, name, i) for task in tasks for i in range(k)]
        left = jobs[row["n"] :]
        if left:
            with player(want, world, name) as plays:
                size = BATCH if want.kind == "model" else 1
                for at in range(0, len(left), size):
                    for found in plays(left[at : at + size]):
                        file.add(replace(found, scaffold=name))
                        row["n"] += 1
                        row["solved"] += found.solved
                        row["unknown"] += not found.outcome.known
                        if not found.outcome.known:
                            reason = found.outcome.reason.strip()[:WIDTH]
                            row["why"][reason] = row["why"].get(reason, 0) + 1
                        row["turns"] += len(found.turns)
                        row["tokens"] += len(found.record) + sum(len(each.record) for each in found.branches)
                    file.commit(state)
                    advance(before + row["n"])
        before += len(jobs)
    file.commit(state, done=True)
    return state


def _job(want: Asked, world: World, task: Task, scaffold: str, i: int) -> Job:
    strategy, source = "", "student"
    if want.kind == "strategy":
        strategy = strategy_of(world, want.policy) or want.policy
        source = f"teacher:{strategy}"
    elif want.kind == "url":
        strategy, source = ASKED, f"teacher:{want.model}"
    who = source.removeprefix("teacher:")
    # The scaffold is no part of the seed: a policy meets the same chance over each.
    return Job(f"{task.id}/{who}/{scaffold}/{i}", task, derive(want.seed, "play", task.id, i), strategy, source=source)


def _kind(policy: str, model: str | None, world: World) -> str:
    """What a policy is: strategy, url or model. Raises UserError."""
    is_url = policy.startswith(("http://", "https://"))
    if is_url != (model is not None):
        raise UserError("--model must go with a URL, and a URL with --model: got one of them - add the other")
    if is_url:
        return "url"
    if strategy_of(world, policy) is not None:
        return "strategy"
    try:
        cli_serve.find_model(policy)
    except UserError as fault:
        known = list(world.strategies)
        raise UserError(
            f"POLICY must be a strategy of {world.name} ({', '.join(known)}), a model or a URL: got "
            f"{policy!r}{registry.nearest(policy, known)} - name one of them ({fault})"
        ) from None
    return "model"


def _check_scaffold(name: str) -> None:
    known = [*(form for form in NAMES if form != "auto"), *registry.names("harnesses")]
    if name not in known:
        raise UserError(
            f"--scaffold must be one of {', '.join(known)}: got {name!r}{registry.nearest(name, known)} - choose one"
        )


@contextmanager
def player(want: Asked, world: World, scaffold: str) -> Iterator[Plays]:
    """What plays jobs of one policy over one scaffold.

    Raises:
        UserError: the two do not go together, or an option is wrong.
    """
    is_form = scaffold in NAMES
    if want.kind == "model":
        with _by_model(want, scaffold, is_form) as plays:
            yield plays
        return
    if not is_form and want.kind == "url":
        raise UserError(
            f"--scaffold {scaffold} must have a policy that is served here: got {want.policy!r} - name a checkpoint or "
            "a strategy, or run the harness against the server yourself (docs/recording.md)"
        )
    from noria.stages.roller import Roller
    from noria.tokens.renderer import Renderer

    recipe = _recipe(want, [*WIDE, *want.overrides])
    limits = Limits.of(recipe.rollout)
    renderer = Renderer.load(cli_serve.find_model(want.tokens), scaffold if is_form else "auto")
    with ExitStack() as stack:
        playing: World = world
        if want.kind == "url":
            playing = AskedWorld(world, _answers(stack, want, renderer, recipe))
        name = want.env.rpartition(".")[2]
        roller = Roller({name: playing}, renderer, None, limits, 1)
        if is_form:
            yield lambda jobs: [roller.play(job) for job in jobs]
        else:
            yield _by_script(stack, want, scaffold, {name: world}, roller, renderer, limits)


def _by_script(
    stack: ExitStack,
    want: Asked,
    scaffold: str,
    worlds: Mapping[str, World],
    roller: Any,
    renderer: Any,
    limits: Limits,
) -> Plays:
    """Scripted rollouts in a harness: what the policy does in the house's loop, said there in the harness's words."""
    module = registry.resolve("harnesses", scaffold)
    if not hasattr(module, "recited"):
        raise UserError(f"--scaffold {scaffold} must be played by a model: no scripted policy speaks its language")
    from noria.harnesses import command
    from noria.harnesses._recital import Recital

    table = _recipe(want, [f"rollout.harness.type={scaffold}", *(f"rollout.harness.{o}" for o in want.harness)])
    assert table.rollout.harness is not None
    config = table.rollout.harness.config().as_command()
    recital = Recital(renderer, limits.max_tokens)
    stack.callback(recital.close)
    blocking = list(worlds) if registry.constant("envs", want.env, "BLOCKING") else []
    away = command.Player(config, worlds, blocking, cast(Any, recital), renderer)
    stack.callback(away.close)

    def one(job: Job) -> Trajectory:
        here = roller.play(job)
        if here.stop not in ("done", "turn_limit"):
            return cast(Trajectory, here)  # the world failed before the harness began
        return recital.play(away, job, module.recited([turn.message for turn in here.turns]), limits)

    return lambda jobs: [one(job) for job in jobs]


@contextmanager
def _by_model(want: Asked, scaffold: str, is_form: bool) -> Iterator[Plays]:
    """Rollouts of a checkpoint, within the limits of a recipe and at its temperature."""
    from noria.models.weights import read
    from noria.stages.worker import Pool

    more = [f"student.call_form={scaffold}"] if is_form else [f"rollout.harness.type={scaffold}"]
    more += [] if is_form else [f"rollout.harness.{option}" for option in want.harness]
    recipe = _recipe(want, [*more, *want.overrides])
    folder = cli_serve.find_model(want.policy)
    pool = Pool(recipe, folder)
    try:
        pool.load(read(folder), 0, recipe.rollout.temperature, Limits.of(recipe.rollout))
        yield pool.run
    finally:
        pool.close()


def _recipe(want: Asked, more: Sequence[str]) -> Recipe:
    table = want.env.rpartition(".")[2]
    options = [f"env.{table}.{option}" for option in want.options]
    return of_world(want.env, [f"sandbox.type={want.sandbox}", *options, *more])


def _answers(stack: ExitStack, want: Asked, renderer: Any, recipe: Recipe) -> Callable[..., str]:
    """Asks the server for each message; tools are told in words, in the scaffold's form of calls."""
    server = cli_make.server_of(want.policy, want.model, want.key_env)
    assert server is not None
    ask, _ = cli_make.asking(
        stack, server, max_output_tokens=recipe.rollout.max_new_tokens, temperature=recipe.rollout.temperature
    )
    return partial(_answer, ask, renderer)


def _answer(ask: Callable[[Sequence[Message]], str], renderer: Any, task: Task, heard: Sequence[Message]) -> str:
    from noria.tokens.tools import described

    system = "\n\n".join(filter(None, (task.system, described(task.tools, renderer.form))))
    told = [Message("system", system), Message("user", task.prompt)]
    for message in heard:
        mine = message.role == "assistant"
        text = renderer.written(message.content, task.tools) if mine else message.content
        told.append(Message("assistant" if mine else "user", text))
    said = ask(told)
    if not said.strip():
        raise EngineError("the server's model said nothing")
    return canonical(renderer.form, said)
