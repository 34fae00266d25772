"""Evaluation: one path for every model, in a run and from the command line; the same held-out tasks for all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noria.core.codec import dumps
from noria.core.protocols import Answers
from noria.core.recipe import Recipe
from noria.core.recipe_checks import measured
from noria.core.stats import mean_interval, mean_pass_at_k, wilson
from noria.core.types import Split, Task, Trajectory
from noria.core.votes import Vote, mean_maj_at_k
from noria.models.weights import read
from noria.stages.context import Context, derive, heldout, struck_by
from noria.stages.roller import Job

OUTCOMES, SCORES = "outcomes.jsonl", "scores.json"


def evaluate(ctx: Context, model: str, folder: Path, worlds: Sequence[str], unseen: bool = False) -> None:
    """Make the artifact `evaluate-<model>`: one outcome per held-out task, and scores by world and split.

    Of `worlds` those that the gate names are played.
    """
    name = ctx.name(f"evaluate-{model.replace(':', '-')}")
    if ctx.run.done(name):
        return
    with ctx.run.artifact(name, inputs=ctx.artifacts(folder), seed=ctx.recipe.seed) as work:
        jobs, groups = [], []
        for world in (world for world in worlds if world in measured(ctx.recipe)):
            for split, n in _splits(ctx, world, unseen):
                tasks = ctx.heldout_tasks(world, split, n)
                jobs += heldout_jobs(tasks, ctx.recipe.seed, ctx.recipe.eval.samples_per_task)
                groups.append((world, split))
        ctx.use(folder, ctx.recipe.eval.temperature, evaluation=True)
        found = ctx.roll(jobs, work)
        by_group: dict[tuple[str, str], list[Trajectory]] = {group: [] for group in groups}
        for t in found:
            by_group[(t.task.world, t.task.split)].append(t)
        k = ctx.recipe.eval.samples_per_task
        scores = [
            score(model, world, split, ts, ctx.recipe.gate.confidence) | at_k(ctx.worlds[world], ts, k)
            for (world, split), ts in by_group.items()
        ]
        with (work.path / OUTCOMES).open("w", encoding="utf-8") as out:
            for t in found:
                out.write(dumps(outcome_row(t)) + "\n")
        (work.path / SCORES).write_text(json.dumps(scores, indent=1), encoding="utf-8")
        work.count_in(tasks=len(jobs))
        work.count_out(solved=sum(t.solved for t in found), unknown=sum(not t.outcome.known for t in found))


def _splits(ctx: Context, world: str, unseen: bool) -> list[tuple[Split, int]]:
    out: list[tuple[Split, int]] = [("heldout", ctx.recipe.gate.tasks)]
    if unseen and ctx.recipe.eval.unseen_tasks and "unseen" in ctx.worlds[world].splits:
        out.append(("unseen", ctx.recipe.eval.unseen_tasks))
    return out


def heldout_jobs(tasks: Sequence[Task], seed: int, samples: int) -> list[Job]:
    """Jobs whose seeds depend on the run's seed and the task alone: every model meets the same chance."""
    return [Job(f"{t.id}/eval/{k}", t, derive(seed, "eval", t.id, k)) for t in tasks for k in range(samples)]


def outcome_row(trajectory: Trajectory) -> dict[str, Any]:
    """One line of `outcomes.jsonl`."""
    return {
        "task": trajectory.task.id,
        "world": trajectory.task.world,
        "split": trajectory.task.split,
        "id": trajectory.id,
        "reward": trajectory.outcome.reward,
        "reason": trajectory.outcome.reason,
        "stop": trajectory.stop,
        "tokens": trajectory.action_tokens,
        "messages": [[turn.message, turn.observation] for turn in trajectory.turns],
    }


def score(model: str, world: str, split: str, trajectories: Sequence[Trajectory], confidence: float) -> dict[str, Any]:
    """Counts and rates of one model on one split of one world. Unknown outcomes take no part in a rate.

    `tokens_per_solve` is the mean number of tokens that the model generated in the rollouts it solved.
    """
    known = [t for t in trajectories if t.outcome.known]
    solved = [t for t in known if t.solved]
    lengths = [float(t.action_tokens) for t in solved]
    mean, spread = mean_interval(lengths, confidence) if len(lengths) > 1 else (sum(lengths), (0.0, 0.0))
    ends = wilson(len(solved), len(known), confidence) if known else (0.0, 1.0)
    return {
        "model": model,
        "world": world,
        "split": split,
        "n": len(trajectories),
        "correct": len(solved),
        "unknown": len(trajectories) - len(known),
        "pass@1": round(len(solved) / max(1, len(known)), 4),
        "ci95": [round(ends[0], 4), round(ends[1], 4)],
        "tokens_per_solve": round(mean, 2) if solved else None,
        "tokens_per_solve_ci": [round(spread[0], 2), round(spread[1], 2)] if len(solved) > 1 else None,
        "tokens_mean": round(sum(t.action_tokens for t in trajectories) / max(1, len(trajectories)), 2),
    }


def at_k(world: Any, trajectories: Sequence[Trajectory], k: int) -> dict[str, float]:
    """pass@k over the tasks, and maj@k where the world's answers can be compared; nothing of one rollout per task."""
    if k == 1:
        return {}
    tasks: dict[str, list[Trajectory]] = {}
    for t in trajectories:
        tasks.setdefault(t.task.id, []).append(t)
    solved = [[t.solved if t.outcome.known else None for t in found] for found in tasks.values()]
    rates = {f"pass@{k}": round(mean_pass_at_k(solved, k).value, 4)}
    if isinstance(world, Answers):
        votes = [[_vote(world, t) if t.outcome.known else None for t in found] for found in tasks.values()]
        rates[f"maj@{k}"] = round(mean_maj_at_k(votes, k).value, 4)
    return rates


def _vote(world: Answers, t: Trajectory) -> Vote:
    return world.answer(t.turns[-1].message) if t.turns else None, t.solved


def collect(ctx: Context, models: Sequence[str]) -> None:
    """Make the artifact `evaluate`: all scores of the round in one file."""
    name = ctx.name("evaluate")
    if ctx.run.done(name):
        return
    parts = [ctx.name(f"evaluate-{model.replace(':', '-')}") for model in models]
    with ctx.run.artifact(name, inputs=parts) as work:
        scores = [s for part in parts for s in json.loads((ctx.run.folder(part) / SCORES).read_text())]
        (work.path / SCORES).write_text(json.dumps(scores, indent=1), encoding="utf-8")
        work.count_in(models=len(models))
        work.count_out(scores=len(scores))


def outcomes(ctx: Context, model: str) -> dict[str, dict[str, Any]]:
    """Held-out outcome rows of a model by rollout id."""
    path = ctx.run.folder(ctx.name(f"evaluate-{model.replace(':', '-')}")) / OUTCOMES
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["id"]: row for row in rows if row["split"] == "heldout"}


def evaluate_checkpoint(
    recipe: Recipe, model: Path, env: str, seed: int, n: int, k: int, split: Split = "heldout"
) -> dict[str, Any]:
    """Score any checkpoint on one world, outside a run: pass@1, and pass@k and maj@k from `k` rollouts per task."""
    from noria.stages.worker import Pool, open_worlds

    worlds, sandbox = open_worlds(recipe, [env])
    pool = Pool(recipe, model)
    try:
        table = recipe.eval
        from noria.stages.roller import Limits

        limits = Limits.of(recipe.rollout, table)
        pool.load(read(model), 0, table.temperature, limits)
        tasks = heldout(worlds[env], env, split, n, seed, struck_by(recipe, worlds).get(env, frozenset()))
        found = pool.run(heldout_jobs(tasks, seed, k))
    finally:
        pool.close()
        if sandbox is not None:
            sandbox.close()
    result = score(str(model), env, split, found, recipe.gate.confidence)
    return result | at_k(worlds[env], found, k) | {"seed": seed, "samples_per_task": k}
