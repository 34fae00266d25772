"""Stage 6, cleaning: the hint leaves prompt and reasoning, what should not be learnt leaves the set, and every kept
trajectory is replayed without the hint in a fresh world and must still succeed with its actions unchanged."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from noria.core.errors import PolicyError
from noria.core.types import Task, Trajectory
from noria.stages.context import Context, load_trajectories, save_trajectories
from noria.stages.hint import load_hints, ngrams
from noria.stages.roller import Job
from noria.tokens import calls
from noria.tokens.record import edited

#: Why a trajectory leaves the set; each is counted, zeros included.
REASONS = (
    "unsolved", "format", "duplicate", "near_duplicate", "over_max_per_task", "contaminated", "replay_failed",
    "replay_unknown",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What no training sample may be: every task that the run measures on, whatever its id.

    `ngrams` are the runs of `n` words of their prompts; with n = 0 only equal tasks count, which is right for
    generated worlds, where all prompts of a kind share their wording.
    """

    contents: frozenset[str]
    ngrams: frozenset[tuple[str, ...]]
    n: int

    @classmethod
    def of(cls, ctx: Context) -> HeldOut:
        """The held-out tasks of every world and split that the run evaluates on."""
        sizes = {"heldout": ctx.recipe.gate.tasks, "unseen": ctx.recipe.eval.unseen_tasks}
        tasks = [
            task
            for name, world in ctx.worlds.items()
            for split in world.splits
            if sizes.get(split)
            for task in ctx.heldout_tasks(name, split, sizes[split])
        ]
        n = ctx.recipe.curate.contamination_ngram
        runs = {run for task in tasks for run in ngrams(task.prompt, n)} if n else set()
        return cls(frozenset(content(t.prompt, t.data) for t in tasks), frozenset(runs), n)

    def holds(self, task: Task) -> bool:
        """Whether the task is one of them, or shares a run of words with one."""
        if content(task.prompt, task.data) in self.contents:
            return True
        return bool(self.n) and not self.ngrams.isdisjoint(ngrams(task.prompt, self.n))


def run(ctx: Context) -> None:
    """Make the artifact `curate`; its counts say what left and why."""
    name = ctx.name("curate")
    if ctx.run.done(name):
        return
    with ctx.run.artifact(name, inputs=[ctx.name("resample")], seed=ctx.seed("curate")) as work:
        thoughts = {hint.task_id: hint.thought for hint in load_hints(ctx)}
        found = load_trajectories(ctx, "resample")
        left: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        left["unsolved"] = sum(not t.solved for t in found)
        scripts = []
        for trajectory in (t for t in found if t.solved):
            script = strip(trajectory, thoughts[trajectory.task.id])
            reason = fault(script)
            if reason:
                left[reason] += 1
            else:
                scripts.append((trajectory, script))
        scripts = _unlike(ctx, scripts, left)
        jobs = [Job(t.id, t.task, t.seed, script=tuple(script), source="student") for t, script in scripts]
        replayed = ctx.roll(jobs, work)
        kept = []
        for trajectory, (_, script) in zip(replayed, scripts, strict=True):
            if not trajectory.outcome.known:
                left["replay_unknown"] += 1
            elif not trajectory.solved or [turn.message for turn in trajectory.turns] != script:
                left["replay_failed"] += 1
            else:
                branches = tuple(replace(b, record=edited(b.record)) for b in trajectory.branches)
                kept.append(replace(trajectory, record=edited(trajectory.record), branches=branches))
        save_trajectories(work, kept)
        (work.path / "left.json").write_text(json.dumps(left, indent=1), encoding="utf-8")
        work.count_in(trajectories=len(found))
        work.count_out(kept=len(kept), replayed=len(jobs), **dict(left))


def strip(trajectory: Trajectory, thought: str) -> list[str]:
    """The messages of a hinted rollout without the thought that it was given."""
    out = []
    for turn in trajectory.turns:
        message = turn.message
        if thought and message.startswith(f"<think>{thought}"):
            rest = message.removeprefix(f"<think>{thought}").lstrip()
            message = rest.removeprefix("</think>") if rest.startswith("</think>") else f"<think>{rest}"
        out.append(message)
    return out


def fault(script: Sequence[str]) -> str:
    """Why a script must not be learnt, "" if it may."""
    for message in script:
        try:
            parsed = calls.parse(message)
        except PolicyError:
            return "format"
        if not parsed.calls and not parsed.answer:
            return "format"
    return ""


def _unlike(
    ctx: Context, scripts: Sequence[tuple[Trajectory, list[str]]], left: Counter[str]
) -> list[tuple[Trajectory, list[str]]]:
    """Drop copies, near copies, contamination with held-out tasks, and what is more than `max_per_task`."""
    table = ctx.recipe.curate
    held_out = HeldOut.of(ctx)
    seen: dict[str, list[set[tuple[str, ...]]]] = {}
    exact: set[str] = set()
    kept = []
    for trajectory, script in scripts:
        task = trajectory.task
        digest = hashlib.sha256("\x1f".join([task.id, *script]).encode()).hexdigest()
        shingles = ngrams(task.prompt + " " + " ".join(script), table.shingle)
        others = seen.setdefault(task.id, [])
        if digest in exact:
            left["duplicate"] += 1
        elif held_out.holds(task):
            left["contaminated"] += 1
        elif any(jaccard(shingles, other) >= table.near_duplicate for other in others):
            left["near_duplicate"] += 1
        elif len(others) >= table.max_per_task:
            left["over_max_per_task"] += 1
        else:
            exact.add(digest)
            others.append(shingles)
            kept.append((trajectory, script))
    return kept


def content(prompt: str, data: object) -> str:
    """A hash of what a task is, whatever its id."""
    return hashlib.sha256((prompt + json.dumps(data, sort_keys=True, default=str)).encode()).hexdigest()


def jaccard(a: set[tuple[str, ...]], b: set[tuple[str, ...]]) -> float:
    """Share of common shingles; two empty sets are alike."""
    return len(a & b) / len(a | b) if a or b else 1.0
