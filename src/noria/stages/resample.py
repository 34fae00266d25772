"""Stage 5, re-sampling: the weak model tries its failed tasks again under the hint; the verifier decides.

Three arms on the same tasks: with the hint, without one, and with a hint from random marks. Only the first feeds
training; the other two say what the hint is worth.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from noria.core.stats import wilson
from noria.core.types import Hint, Task, Trajectory
from noria.stages.context import Context, save_trajectories
from noria.stages.hint import RANDOM_HINTS, load_hints
from noria.stages.pair import load_pairs
from noria.stages.roller import Job

ARMS = ("hint", "none", "random")


def run(ctx: Context) -> None:
    """Make the artifact `resample`: all re-sampled trajectories of the hint arm, and the arms' success rates."""
    name = ctx.name("resample")
    if ctx.run.done(name):
        return
    with ctx.run.artifact(name, inputs=[ctx.name("hint")], seed=ctx.seed("resample")) as work:
        tasks = {pair.task.id: pair.task for pair in load_pairs(ctx)}
        hints, randoms = load_hints(ctx), load_hints(ctx, RANDOM_HINTS)
        table = ctx.recipe.hint
        jobs = _jobs(ctx, tasks, hints, "hint", table.samples_per_task)
        if table.controls:
            jobs += _jobs(ctx, tasks, [Hint(h.task_id, "", "") for h in hints], "none", table.samples_per_task)
            jobs += _jobs(ctx, tasks, randoms, "random", table.samples_per_task)
        ctx.use(ctx.weak, ctx.recipe.rollout.temperature)
        found = ctx.roll(jobs, work)
        arms = {arm: [t for t in found if t.id.split("/")[-2] == arm] for arm in ARMS}
        summary = {
            arm: {world: _rate([t for t in ts if t.task.world == world]) for world in ctx.worlds}
            for arm, ts in arms.items()
        }
        (work.path / "arms.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
        save_trajectories(work, arms["hint"])
        work.count_in(hints=len(hints))
        solved = {f"{arm}_solved": sum(t.solved for t in ts) for arm, ts in arms.items() if ts}
        work.count_out(samples_per_arm=len(arms["hint"]), **solved)


def _jobs(ctx: Context, tasks: dict[str, Task], hints: Sequence[Hint], arm: str, samples: int) -> list[Job]:
    # The arms share their seeds, so that chance is the same on each task.
    return [
        Job(
            f"{hint.task_id}/{arm}/{k}", tasks[hint.task_id], ctx.seed("resample", hint.task_id, k),
            hint=hint if hint.text else None,
        )
        for hint in hints
        for k in range(samples)
    ]  # fmt: skip


def _rate(trajectories: Sequence[Trajectory]) -> dict[str, object]:
    known = [t for t in trajectories if t.outcome.known]
    solved = sum(t.solved for t in known)
    low, high = wilson(solved, len(known)) if known else (0.0, 1.0)
    return {"n": len(known), "solved": solved, "rate": solved / max(1, len(known)), "ci95": [low, high]}
