"""Stage 2, pairs: the same task, one trajectory that the verifier accepted and one that it refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from noria.core.codec import read_jsonl, write_jsonl
from noria.core.types import Pair, Trajectory
from noria.stages.context import Context, load_trajectories

PAIRS = "pairs.jsonl"


def run(ctx: Context) -> None:
    """Make the artifact `pair`. A weak success gives no pair, and neither does a task that no one solved."""
    name = ctx.name("pair")
    if ctx.run.done(name):
        return
    with ctx.run.artifact(name, inputs=[ctx.name("rollout")]) as work:
        trajectories = load_trajectories(ctx, "rollout")
        pairs = make_pairs(trajectories)
        write_jsonl(work.path / PAIRS, pairs)
        tasks = {t.task.id for t in trajectories}
        paired = {p.task.id for p in pairs}
        failed = {t.task.id for t in trajectories if t.source == "student" and t.outcome.known and not t.solved}
        work.count_in(trajectories=len(trajectories), tasks=len(tasks))
        work.count_out(pairs=len(pairs), weak_always_right=len(tasks - failed), no_right=len(failed - paired))


def make_pairs(trajectories: Sequence[Trajectory]) -> list[Pair]:
    """One pair per task that the weak model failed and someone solved: the wrong one and its closest right one."""
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        by_task[trajectory.task.id].append(trajectory)
    pairs = []
    for group in by_task.values():
        wrong = [t for t in group if t.source == "student" and t.outcome.known and not t.solved and t.turns]
        right = [t for t in group if t.solved and t.turns]
        if wrong and right:
            first = wrong[0]
            best = max(right, key=lambda t: (common_turns(t, first), -len(t.turns), t.id))
            pairs.append(Pair(first.task, best, first))
    return pairs


def common_turns(a: Trajectory, b: Trajectory) -> int:
    """Number of leading turns with the same message."""
    n = 0
    for x, y in zip(a.turns, b.turns, strict=False):
        if x.message != y.message:
            break
        n += 1
    return n


def load_pairs(ctx: Context) -> list[Pair]:
    """The pairs of this round."""
    return list(read_jsonl(ctx.run.folder(ctx.name("pair")) / PAIRS, Pair))
