"""What a sampled phase is given before it starts: teachers, tasks of fitting difficulty, experts' episodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from noria.core.errors import UserError
from noria.core.recipe_phases import Auxiliary, Difficulty, Distilled, Phase, Sampled
from noria.core.store import Artifact
from noria.core.types import Task, Trajectory
from noria.stages.bank import ModelBank, Remote, Source
from noria.stages.checkpoint import of_model
from noria.stages.context import Context
from noria.stages.distil import Means, route_of
from noria.stages.hooks import Hooks
from noria.stages.learning import Learner, Second
from noria.stages.models import resolve_model
from noria.stages.roller import Job
from noria.stages.scoring import Here, Holder, Host
from noria.stages.signals import Signal, needs_bank, read_of_teachers
from noria.stages.signals import build as build_signal
from noria.trainers.auxiliary import paired

RATES = "difficulty.json"


def trainer_of(ctx: Context, name: str, phase: Phase, base: Path) -> Learner:
    """The trainer of a phase that starts from `base`: of the student, and of a second policy where there is one.

    Raises:
        UserError: the second policy's model is not there.
    """
    settings = ctx.recipe.student.trainer
    second = None
    if isinstance(phase, Distilled) and phase.auxiliary is not None:
        folder = second_of(ctx, name, phase.auxiliary)
        second = Second(str(folder), phase.auxiliary.lr, of_model(folder))
    if ctx.learner is not None:
        far = ctx.learner()
        far.open(base, second)
        return far
    if second is not None:
        return paired(settings.config(), base, Path(second.folder), second.lr, second.origin)
    trainer: Learner = settings.module().build(settings.config(), base)
    return trainer


def second_of(ctx: Context, name: str, table: Auxiliary) -> Path:
    """The checkpoint that a second policy starts from. Raises UserError where there is none."""
    if table.model == "weak":
        return ctx.weak
    return resolve_model(table.model, f"phase.{name.split('/')[0]}.auxiliary.model")


def signal_of(
    ctx: Context, work: Artifact, name: str, phase: Sampled, base: Path, trainer: Learner,
    experts: Mapping[str, Path], tasks: Mapping[str, Sequence[Task]], key_kinds: Mapping[str, Sequence[str]],
) -> Signal:  # fmt: skip
    """The signal of a phase with everything that it needs.

    `experts` are the checkpoints that a phase with `route` was led to, by world.

    Raises:
        UserError: a task names a route that the phase does not have, or something that the phase uses is missing.
    """
    routes: dict[str, int] = {}
    named: dict[str, int] = {}
    bank = None
    if needs_bank(phase):
        teachers: list[Path | Source] = []
        shares, temperature = None, 1.0
        if isinstance(phase, Distilled):
            teachers, routes, named, shares = teachers_of(ctx, phase, experts, list(tasks))
            for task in (task for found in tasks.values() for task in found):
                route_of(task, routes, named)  # before anything is spent on the phase
            temperature = phase.teacher_temperature
        settings = ctx.recipe.student.trainer
        config, module = settings.config(), settings.module()
        host: Host
        if ctx.scorers is None:
            host = Here(Holder(make=lambda folder: module.build_scorer(config, folder)))
        else:
            host = ctx.scorers()
            host.forget()
        bank = ModelBank(
            host, teachers, temperature, reference=base, shares=shares, student=trainer, home=base,
            reference_temperature=phase.temperature,
        )  # fmt: skip
    played = expert_episodes(ctx, work, name, tasks) if Hooks(phase).wants_experts else {}
    means = Means(ctx.worlds, ctx.renderer, played, ctx.limits().max_turns, ctx.seed(name, "signal"), trainer, named)
    return build_signal(phase, ctx.worlds, key_kinds, bank, routes, means)


def teachers_of(
    ctx: Context, phase: Distilled, experts: Mapping[str, Path], worlds: Sequence[str]
) -> tuple[list[Path | Source], dict[str, int], dict[str, int], list[float] | None]:
    """The teachers of a phase, the route of each world, the routes that tasks may name, and the teachers' shares.

    Routes are indices of teachers. There are shares where all teachers score every sample.
    """
    if isinstance(phase.route, str) and experts:
        names = list(experts)
        found: list[Path | Source] = [*experts.values()]
        routes = named = {world: i for i, world in enumerate(names)}
    else:
        table = phase.route if isinstance(phase.route, dict) else dict.fromkeys(worlds, phase.route)
        keys = [*worlds, *(key for key in table if key not in ctx.recipe.env)]
        names = list(dict.fromkeys(table[key] for key in keys))
        found = []
        for name in names:
            plug = ctx.recipe.teachers[name]
            found.append(plug.module().build(plug.config()))
        routes = {world: names.index(table[world]) for world in worlds}
        named = {name: i for i, name in enumerate(names)} | {key: names.index(table[key]) for key in keys}
    if not phase.teacher_weights:
        return found, routes, named, None
    return found, routes, named, [phase.teacher_weights.get(name, 0.0) for name in names]


def check_teachers(ctx: Context) -> None:
    """Ask for the teachers and second policies that this round still needs, before anything is spent on it.

    Raises:
        UserError: a server cannot teach this student, a phase wants of it what only weights can give, or a second
            policy's model is not there.
    """
    for name, phase in ctx.recipe.phase.items():
        if not isinstance(phase, Distilled) or not phase.steps or ctx.run.done(ctx.name(name)):
            continue
        if phase.auxiliary is not None:
            second_of(ctx, name, phase.auxiliary)
        table = phase.route if isinstance(phase.route, dict) else {"": phase.route}
        for teacher in dict.fromkeys(table.values()):
            plug = ctx.recipe.teachers.get(teacher)
            if plug is None:
                continue
            source = plug.module().build(plug.config())
            if not isinstance(source, Remote):
                continue
            try:
                top = read_of_teachers(phase)
                if top is None:
                    source.data()
                source.check(ctx.renderer, ctx.recipe.rollout.max_tokens, top or 0)
            except UserError as fault:
                raise UserError(f"teachers.{teacher}.{fault}") from fault


def of_fitting_difficulty(
    ctx: Context, work: Artifact, name: str, phase: Sampled, base: Path, tasks: Mapping[str, Sequence[Task]]
) -> dict[str, list[Task]]:
    """The tasks that the phase's first model solves sometimes; all of them where the phase does not ask.

    The pass rates are kept in the artifact: a continued phase does not measure them again.

    Raises:
        UserError: no task of a world is left.
    """
    table = phase.difficulty
    if table is None:
        return {world: list(found) for world, found in tasks.items()}
    path = work.path / RATES
    if not path.exists():
        rates = measure(ctx, work, name, phase, table, base, tasks)
        path.write_text(json.dumps(rates, indent=1), encoding="utf-8")
    rates = json.loads(path.read_text(encoding="utf-8"))
    kept = {world: [task for task in found if keeps(table, rates[task.id])] for world, found in tasks.items()}
    for world, found in kept.items():
        if not found:
            raise UserError(
                f"phase.{name.split('/')[0]}.difficulty must leave tasks: none of {len(tasks[world])} of {world} has a "
                f"pass rate in [{table.low}, {table.high}] - widen the range, or draw the phase from other worlds"
            )
    return kept


def measure(
    ctx: Context, work: Artifact, name: str, phase: Sampled, table: Difficulty, base: Path,
    tasks: Mapping[str, Sequence[Task]],
) -> dict[str, float | None]:  # fmt: skip
    """pass_rate@n of each task: the mean over its n rollouts with a known outcome, None where there is none."""
    ctx.use(base, phase.temperature)
    jobs = [
        Job(f"{task.id}/difficulty/{k}", task, ctx.seed(name, "difficulty", task.id, k))
        for found in tasks.values() for task in found for k in range(table.rollouts)
    ]  # fmt: skip
    solved: dict[str, list[bool]] = {task.id: [] for found in tasks.values() for task in found}
    for t in ctx.roll(jobs, work):
        if t.outcome.known:
            solved[t.task.id].append(t.solved)
    return {id: sum(found) / len(found) if found else None for id, found in solved.items()}


def keeps(table: Difficulty, rate: float | None) -> bool:
    """Whether a task of this pass rate stays; one that nobody could grade does not."""
    return rate is not None and table.low <= rate <= table.high


def expert_episodes(
    ctx: Context, work: Artifact, name: str, tasks: Mapping[str, Sequence[Task]]
) -> dict[str, Trajectory]:
    """What the recipe's first scripted teacher plays on each task, where it solves it.

    Raises:
        UserError: the recipe has no such teacher.
    """
    scripted = {n: str(t.options["strategy"]) for n, t in ctx.recipe.teachers.items() if t.options.get("strategy")}
    if not scripted:
        raise UserError(
            f"phase.{name.split('/')[0]}.use needs an expert's episodes: no teacher of the recipe plays - add "
            'teachers.careful = { type = "scripted", strategy = "careful" }'
        )
    teacher, strategy = next(iter(scripted.items()))
    jobs = [
        Job(f"{task.id}/expert", task, ctx.seed(name, "expert", task.id), strategy, source=f"teacher:{teacher}")
        for found in tasks.values() for task in found
    ]  # fmt: skip
    return {t.task.id: t for t in ctx.roll(jobs, work) if t.solved}
