"""Stage 1, dual track: scripted or model teachers and the weak model play the same training tasks."""

from __future__ import annotations

from noria.core.types import Task
from noria.stages.context import Context, save_trajectories
from noria.stages.roller import Job


def run(ctx: Context) -> None:
    """Make the artifact `rollout`: every trajectory, right or wrong; only the verifier decided which."""
    name = ctx.name("rollout")
    if ctx.run.done(name):
        return
    with ctx.run.artifact(name, seed=ctx.seed("rollout")) as work:
        tasks = ctx.train_tasks()
        jobs = [job for world in tasks for task in tasks[world] for job in _jobs(ctx, task)]
        ctx.use(ctx.weak, ctx.recipe.rollout.temperature)
        found = ctx.roll(jobs, work)
        save_trajectories(work, found)
        work.count_in(tasks=sum(map(len, tasks.values())))
        weak = [t for t in found if t.source == "student"]
        work.count_out(
            trajectories=len(found),
            teacher_solved=sum(t.solved for t in found) - sum(t.solved for t in weak),
            weak=len(weak),
            weak_solved=sum(t.solved for t in weak),
            unknown=sum(not t.outcome.known for t in found),
        )


def _jobs(ctx: Context, task: Task) -> list[Job]:
    table = ctx.recipe.rollout
    jobs = []
    for teacher, entry in ctx.recipe.teachers.items():
        strategy = str(entry.options.get("strategy", ""))
        if not strategy:
            continue
        for k in range(table.teacher_samples_per_task):
            seed = ctx.seed("teacher", teacher, task.id, k)
            jobs.append(Job(f"{task.id}/{teacher}/{k}", task, seed, strategy, source=f"teacher:{teacher}"))
    for k in range(table.samples_per_task):
        jobs.append(Job(f"{task.id}/weak/{k}", task, ctx.seed("weak", task.id, k)))
    return jobs
