"""Stage 7, training: the phases of the recipe in their order, each from the checkpoint before it.

weak ─► sft ─► experts (one per world, from sft) ─► distill (from sft, towards the experts) ─► efficiency
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path

import numpy as np

from noria.core.errors import UserError
from noria.core.recipe_phases import (
    Distilled,
    EfficiencyPhase,
    Phase,
    RlPhase,
    Sampled,
    SftPhase,
)
from noria.core.types import Trajectory
from noria.stages import rows as rows_of
from noria.stages.analyze import load_analyses
from noria.stages.checkpoint import STATE, Keeper, Origin, of_model, of_rows, of_tasks
from noria.stages.context import Context, derive, load_trajectories
from noria.stages.curate import HeldOut
from noria.stages.datasets import load_rows
from noria.stages.enriching import enriched_rows
from noria.stages.hint import world_kinds
from noria.stages.hooks import drawn_anew, source_of
from noria.stages.learning import Learner
from noria.stages.loop import Phase as Loop
from noria.stages.loop import build_terms, schedule
from noria.stages.pair import load_pairs
from noria.stages.teach import RATES, of_fitting_difficulty, signal_of, trainer_of
from noria.stages.validate import validator_of
from noria.trainers.rows import Row

#: How many kinds of action count as decisive in a world when credit is weighted by them.
KEY_KINDS = 2
#: Supervised steps between two saved states.
SFT_SAVES = 10


@dataclass(frozen=True, slots=True)
class Model:
    """A trained model of the round: its label in the scores, its checkpoint, the worlds it is judged on; `split` says
    that it is one world's expert."""

    label: str
    folder: Path
    worlds: tuple[str, ...]
    split: bool = False


def plan(ctx: Context) -> Iterator[tuple[Model, Callable[[], None]]]:
    """The models that the phases make, in order, each with the function that makes it."""
    base = ctx.weak
    experts: dict[str, dict[str, Path]] = {}
    phases = [(name, phase) for name, phase in ctx.recipe.phase.items() if phase.steps > 0]
    last = max((i for i, (_, phase) in enumerate(phases) if phase.split_by is None), default=-1)
    used = {"weak", "final"}
    for i, (name, phase) in enumerate(phases):
        worlds = tuple(phase.envs if phase.envs is not None else ctx.recipe.env)
        routes = experts.get(phase.route, {}) if isinstance(phase, Distilled) and isinstance(phase.route, str) else {}
        if phase.split_by == "env":
            experts[name] = {}
            for world in worlds:
                artifact = ctx.name(f"{name}/{world}")
                experts[name][world] = ctx.run.folder(artifact)
                label = next(label for label in (f"expert:{world}", f"{name}:{world}") if label not in used)
                used.add(label)
                yield (
                    Model(label, ctx.run.folder(artifact), (world,), split=True),
                    _maker(ctx, f"{name}/{world}", phase, base, (world,), routes),
                )
            continue
        label = "final" if i == last else _label(name, phase, used)
        used.add(label)
        folder = ctx.run.folder(ctx.name(name))
        yield Model(label, folder, tuple(ctx.recipe.env)), _maker(ctx, name, phase, base, worlds, routes)
        base = folder


def _label(name: str, phase: Phase, used: set[str]) -> str:
    """The name of a model in the scores: what its phase usually makes, else the phase's own name."""
    usual = {"curated": "sft", "teacher_k1": "merged"}.get(phase.signal, name)
    more = (f"{name}-model{'-again' * k}" for k in count())
    return next(label for label in chain((usual, name), more) if label not in used)


def _maker(
    ctx: Context, name: str, phase: Phase, base: Path, worlds: Sequence[str], routes: dict[str, Path]
) -> Callable[[], None]:
    return lambda: make(ctx, name, phase, base, worlds, routes)


def make(ctx: Context, name: str, phase: Phase, base: Path, worlds: Sequence[str], routes: dict[str, Path]) -> None:
    """Make the checkpoint artifact of one phase; resumable inside."""
    artifact = ctx.name(name)
    if ctx.run.done(artifact):
        (ctx.run.folder(artifact) / STATE).unlink(missing_ok=True)
        return
    inputs = ctx.artifacts(base, *routes.values())
    if isinstance(phase, SftPhase):
        inputs += [ctx.name("curate"), ctx.name("rollout")]
    with ctx.run.artifact(artifact, inputs=inputs, seed=ctx.seed(name), resumable=True, scratch=(STATE,)) as work:
        model = of_model(base)
        config = ctx.recipe.student.trainer.config()
        trainer = trainer_of(ctx, name, phase, base)
        if isinstance(phase, SftPhase):
            trainer.use_threads(config.alone_threads)
            rows = supervised_rows(ctx, worlds, phase)
            if phase.enrich is not None:
                rows += enriched_rows(ctx, name, phase, supervised_trajectories(ctx, worlds, phase), work.path)
            work.count_in(rows=len(rows), tokens=sum(map(len, rows)))
            origin = Origin(model, of_rows(rows, phase.tokens_per_step, ctx.recipe.seed, artifact))
            fine_tune(Keeper(work, artifact, origin), ctx.recipe.seed, trainer, rows, phase)
            work.count_out(steps=phase.steps)
            trainer.use_threads(config.threads)
        else:
            trainer.use_threads(config.threads)
            assert isinstance(phase, Sampled)
            # Supervised phases have seen the round's own tasks solved; what is left to learn shows on others.
            groups = phase.steps * phase.prompts_per_step * (1 + phase.max_refills)
            each = -(-groups // len(worlds))
            drawn = {world: ctx.fresh_tasks(world, name, each) for world in worlds}
            work.count_in(tasks=sum(map(len, drawn.values())))
            tasks = of_fitting_difficulty(ctx, work, name, phase, base, drawn)
            order, rollouts = ctx.seed(name, "order"), ctx.seed(artifact)
            data = of_tasks(tasks, order, rollouts, phase.rollouts_per_prompt, *drawn_anew(phase))
            keeper = Keeper(work, artifact, Origin(model, data))
            if isinstance(phase, RlPhase) and phase.sft_steps:
                _warm_start(ctx, trainer, phase, worlds, work.path, artifact)
            signal = signal_of(ctx, work, name, phase, base, trainer, routes, tasks, key_kinds(ctx))
            source = source_of(phase, tasks, order, work.path / RATES)
            Loop(ctx, work, phase, trainer, signal, source, artifact, keeper, validator_of(ctx, phase, worlds)).run()
        trainer.save(work.path, base)


def supervised_rows(ctx: Context, worlds: Sequence[str], phase: SftPhase) -> list[Row]:
    """Rows of the phase's trajectories and of the files that it names."""
    make = partial(rows_of.supervised, mask_errors=phase.mask_errors, rules=phase.error_rules)
    rows = [row for t in supervised_trajectories(ctx, worlds, phase) for row in rows_of.by_branch(t, make)]
    return rows_of.kept([*rows, *_given(ctx, phase)])


def supervised_trajectories(ctx: Context, worlds: Sequence[str], phase: SftPhase) -> list[Trajectory]:
    """The curated set and what teachers solved, in the share that the recipe asks for."""
    curated = [t for t in load_trajectories(ctx, "curate") if t.task.world in worlds]
    held_out = HeldOut.of(ctx)
    taught = [
        t for t in load_trajectories(ctx, "rollout")
        if t.source.startswith("teacher:") and t.solved and t.task.world in worlds and not held_out.holds(t.task)
    ]  # fmt: skip
    rng = np.random.default_rng(ctx.seed("share") % (1 << 63))
    share = phase.teacher_share
    if share < 1 and curated:
        wanted = round(len(curated) * share / (1 - share))
        taught = [taught[i] for i in sorted(rng.permutation(len(taught))[:wanted])]
    return curated * (share < 1) + taught


def _given(ctx: Context, phase: SftPhase) -> list[Row]:
    """Rows of the files that the phase names."""
    rows, dropped = load_rows(
        phase.data, ctx.renderer, ctx.recipe.rollout.max_tokens, phase.mask_errors, phase.error_rules
    )
    if dropped:
        ctx.run.event("dropped", stage="data", **dropped)
    return rows


def fine_tune(keeper: Keeper, seed: int, trainer: Learner, rows: Sequence[Row], phase: SftPhase) -> None:
    """Supervised steps over rows in seeded epochs; state is saved every `SFT_SAVES` steps.

    Raises:
        UserError: there is nothing to train on, or the saved state is of another model or of other rows.
        BadStep: a step was not finite; the last good state is kept.
    """
    if not rows:
        raise UserError(
            f"phase {keeper.label} must have something to train on: every sample was unsolved, masked or filtered away "
            "- `noria show` counts why; give more tasks, samples_per_task or turns, or a stronger teacher"
        )
    trainer.configure(phase.lr, phase.betas, phase.weight_decay, phase.grad_norm)
    terms, coefficients = build_terms(phase), {name: table.coef for name, table in phase.loss.items()}
    work, label, first = keeper.work, keeper.label, 0
    if (state := keeper.resume()) is not None:
        trainer.restore(state["trainer"])
        first = state["step"]
    stream = batches(rows, phase.tokens_per_step, derive(seed, label))
    for step in range(phase.steps):
        batch = next(stream)
        if step < first:
            continue
        trainer.set_lr(phase.lr * schedule(phase, step))
        facts = trainer.step(batch, terms, coefficients, 1.0, phase.tokens_per_micro_batch)
        row: dict[str, float | int | str] = {"phase": label, "step": step + 1, **facts}
        if (step + 1) % SFT_SAVES == 0:
            keeper.save(step + 1, trainer.state(), row)
        work.run.metrics(row)
        work.progress(step + 1, phase.steps, loss=round(facts.get("loss/ce", 0.0), 4))


def batches(rows: Sequence[Row], tokens: int, seed: int) -> Iterator[list[Row]]:
    """Batches of at least so many tokens, without end, in seeded epochs over rollouts.

    The branches of a rollout stay together and are one group; one that comes twice in a batch counts twice.
    """
    rollouts = rows_of.rollouts(rows)
    epoch, batch, size = 0, [], 0
    while True:
        for i in np.random.default_rng(derive(seed, epoch)).permutation(len(rollouts)):
            batch.append(rollouts[int(i)])
            size += sum(map(len, batch[-1]))
            if size >= tokens:
                yield [row for k, members in enumerate(batch) for row in _numbered(members, k)]
                batch, size = [], 0
        epoch += 1


def _numbered(branches: Sequence[Row], group: int) -> list[Row]:
    """The rows of one rollout as a group of a batch."""
    for row in branches:
        row.group = group
    if len(branches) == 1:
        return list(branches)
    return [replace(row, rollout=f"{row.rollout}#{group}") for row in branches]


def _warm_start(
    ctx: Context, trainer: Learner, phase: RlPhase, worlds: Sequence[str], folder: Path, label: str
) -> None:
    """A few supervised steps on the world's share before its own reinforcement; skipped once that has begun."""
    if (folder / STATE).exists():
        return
    source = next((p for p in ctx.recipe.phase.values() if isinstance(p, SftPhase)), None)
    if source is None:
        return
    rows = supervised_rows(ctx, worlds, source)
    if not rows:
        return
    trainer.configure(source.lr, source.betas, source.weight_decay, source.grad_norm)
    terms = build_terms(source)
    coefficients = {name: table.coef for name, table in source.loss.items()}
    stream = batches(rows, source.tokens_per_step, derive(ctx.recipe.seed, label, "warm"))
    for step in range(phase.sft_steps):
        trainer.set_lr(source.lr * (1 - step / phase.sft_steps))
        trainer.step(next(stream), terms, coefficients, 1.0, source.tokens_per_micro_batch)


def key_kinds(ctx: Context) -> dict[str, list[str]]:
    """The kinds of action that this round's marks found decisive, by world."""
    if not ctx.run.done(ctx.name("analyze")):
        return {}
    kinds = world_kinds(ctx, load_analyses(ctx), load_pairs(ctx))
    return {world: found[:KEY_KINDS] for world, found in kinds.items()}


def is_efficiency(phase: Phase) -> bool:
    """Whether a phase shortens correct answers."""
    return isinstance(phase, EfficiencyPhase)
