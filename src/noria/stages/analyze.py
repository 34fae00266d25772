"""Stage 3, the supervisor: for each pair a report, a flowchart and the decisive actions, proved by replay.

The counterfactual supervisor asks one question at every point between two actions: from here, how often does
the weak model still succeed? It forks the world there and lets the model continue several times. Where the
answer moves most lies a key action; the counts before and after are kept with the mark as evidence.

    wrong trajectory:  p0 ─action 0─ p1 ─action 1─ p2 … outcome      mark k ⇔ |p(k+1) − p(k)| is large

Continuations are a budget (`supervisor.replay_budget` per trajectory), spent around the first divergence
first. With `supervisor.type = "model"` they are spent just before and just after the actions that a model
proposes instead, and only those can be marked: the model chooses where to look, replay alone decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from noria.core.codec import read_jsonl, write_jsonl
from noria.core.types import Analysis, KeyAction, Pair, Trajectory
from noria.stages import narrate, propose
from noria.stages.context import Context
from noria.stages.pair import load_pairs
from noria.stages.roller import Job

ANALYSES = "analyses.jsonl"


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a trajectory between two actions: before turn `turn`, or at `token` inside it."""

    turn: int
    token: int
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """`solved` of `tried` continuations from a point succeeded."""

    solved: int
    tried: int

    @property
    def rate(self) -> float:
        return self.solved / self.tried if self.tried else 0.0


def run(ctx: Context) -> None:
    """Make the artifact `analyze`."""
    name = ctx.name("analyze")
    if ctx.run.done(name):
        return
    with ctx.run.artifact(name, inputs=[ctx.name("pair")], seed=ctx.seed("analyze")) as work:
        pairs = choose(load_pairs(ctx), ctx.recipe.supervisor.pairs) if ctx.recipe.rollout.replays else []
        asks = ctx.recipe.supervisor.type == "model"
        proposals = propose.proposals(ctx, pairs) if asks else {}
        ctx.use(ctx.weak, ctx.recipe.rollout.temperature)
        plans = {
            t.id: points(ctx, t, pair, reasons(proposals, pair, t)) for pair in pairs for t in (pair.wrong, pair.right)
        }
        jobs = [job for pair in pairs for t in (pair.wrong, pair.right) for job in _jobs(ctx, t, plans[t.id])]
        values = tally(ctx.roll(jobs, work))
        analyses = [analyse(ctx, pair, plans, values, proposals) for pair in pairs]
        write_jsonl(work.path / ANALYSES, analyses)
        for pair, analysis in zip(pairs, analyses, strict=True):
            stem = pair.task.id.replace("/", "_")
            (work.path / f"{stem}.md").write_text(analysis.report, encoding="utf-8")
            (work.path / f"{stem}.svg").write_text(narrate.flowchart_svg(pair, analysis), encoding="utf-8")
        work.count_in(pairs=len(pairs))
        marks = sum(len(a.marks) for a in analyses)
        work.count_out(
            analyses=len(analyses),
            marks=marks,
            replays=len(jobs),
            unmarked=sum(not a.marks for a in analyses),
        )
        if asks:
            write_jsonl(work.path / propose.PROPOSALS, proposals.values())
            unproposed = sum(not p.actions for p in proposals.values())
            work.count_out(unproposed=unproposed, questions=sum(p.asked for p in proposals.values()))


def choose(pairs: Sequence[Pair], per_world: int) -> list[Pair]:
    """The first `per_world` pairs of each world."""
    taken: dict[str, int] = {}
    out = []
    for pair in pairs:
        taken[pair.task.world] = taken.get(pair.task.world, 0) + 1
        if taken[pair.task.world] <= per_world:
            out.append(pair)
    return out


def reasons(proposals: Mapping[str, propose.Proposal], pair: Pair, trajectory: Trajectory) -> Mapping[int, str] | None:
    """The model's reason by proposed turn, most decisive first; None where no model was asked."""
    proposal = proposals.get(pair.task.id)
    return None if proposal is None else proposal.reasons("right" if trajectory is pair.right else "wrong")


def points(ctx: Context, trajectory: Trajectory, pair: Pair, proposed: Mapping[int, str] | None = None) -> list[Point]:
    """Where to fork: before each turn, and inside the turn of a one-turn trajectory.

    With `proposed` only just before and just after these turns. As many points as the budget pays for, those
    nearest the divergence if not all, in the order of the trajectory.
    """
    table = ctx.recipe.supervisor
    most = max(2, table.replay_budget // table.continuations)
    found = [Point(k, turn.token_start) for k, turn in enumerate(trajectory.turns)]
    split = divergence_token(pair, trajectory)
    if len(trajectory.turns) == 1:
        found += _inside(ctx, trajectory)
    if proposed is not None:
        found = around(found, proposed, most)
    nearest = sorted(found, key=lambda p: (abs(p.token - split), p.token))[:most]
    return sorted(nearest, key=lambda p: p.token)


def around(found: Sequence[Point], turns: Iterable[int], most: int) -> list[Point]:
    """The points before and after each turn, turn by turn as long as there are `most` at most.

    The points inside a one-turn trajectory all belong to its turn: they are kept together.
    """
    kept: set[Point] = set()
    for turn in turns:
        wanted = kept | {p for p in found if turn <= p.turn <= turn + 1}
        if not kept or len(wanted) <= most:
            kept = wanted
    return sorted(kept, key=lambda p: p.token)


def _inside(ctx: Context, trajectory: Trajectory) -> list[Point]:
    """Points at the words of a single turn's reasoning."""
    turn = trajectory.turns[0]
    out, text = [], ""
    for token in range(turn.token_start, turn.token_end - 1):
        piece = ctx.renderer.decode([trajectory.record.ids[token]])
        if text and piece.startswith(" "):
            out.append(Point(0, token, inside=True))
        text += piece
    return out


def divergence(pair: Pair) -> int:
    """Index of the first turn in which the two trajectories differ."""
    shorter = min(len(pair.right.turns), len(pair.wrong.turns))
    for k in range(shorter):
        if pair.right.turns[k].message != pair.wrong.turns[k].message:
            return k
    return shorter


def divergence_token(pair: Pair, trajectory: Trajectory) -> int:
    """Position in `trajectory` of the first token that the other one doesn't share."""
    other = pair.right if trajectory is pair.wrong else pair.wrong
    for k, (a, b) in enumerate(zip(trajectory.record.ids, other.record.ids, strict=False)):
        if a != b:
            return k
    return min(len(trajectory.record), len(other.record))


def _jobs(ctx: Context, trajectory: Trajectory, plan: Sequence[Point]) -> list[Job]:
    out = []
    for point in plan:
        for i in range(ctx.recipe.supervisor.continuations):
            key = f"{trajectory.id}@{point.token}#{i}"
            token = point.token if point.inside else None
            out.append(
                Job(
                    key,
                    trajectory.task,
                    ctx.seed("replay", key),
                    start=trajectory,
                    start_turn=point.turn,
                    start_token=token,
                )
            )
    return out


def tally(replays: Sequence[Trajectory]) -> dict[tuple[str, int], Value]:
    """Successes among the known outcomes, by trajectory and position."""
    out: dict[tuple[str, int], Value] = {}
    for replay in replays:
        source, _, rest = replay.id.rpartition("@")
        key = (source, int(rest.split("#")[0]))
        old = out.get(key, Value(0, 0))
        if replay.outcome.known:
            out[key] = Value(old.solved + replay.solved, old.tried + 1)
        else:
            out.setdefault(key, old)
    return out


def analyse(
    ctx: Context,
    pair: Pair,
    plans: Mapping[str, Sequence[Point]],
    values: Mapping[tuple[str, int], Value],
    proposals: Mapping[str, propose.Proposal],
) -> Analysis:
    """Marks, report and flowchart of one pair."""
    table = ctx.recipe.supervisor
    marks: list[KeyAction] = []
    tried: list[KeyAction] = []
    for trajectory in (pair.wrong, pair.right):
        found = mark(ctx, trajectory, plans[trajectory.id], values, reasons(proposals, pair, trajectory))
        kept = [m for m in found if abs(m.shift) >= table.min_shift]
        marks += sorted(kept, key=lambda m: -abs(m.shift))[: table.key_actions]
        tried += found
    replays = sum(values[(t.id, p.token)].tried for t in (pair.wrong, pair.right) for p in plans[t.id])
    split = divergence(pair)
    budget = 2 * table.replay_budget
    report = narrate.report(pair, split, marks, replays, budget)
    if pair.task.id in proposals:
        report += propose.section(proposals[pair.task.id], pair, tried, marks)
    return Analysis(
        task_id=pair.task.id,
        right_id=pair.right.id,
        wrong_id=pair.wrong.id,
        divergence=split,
        marks=tuple(marks),
        report=report,
        mermaid=narrate.mermaid(pair, split, marks),
        replays=replays,
        budget=budget,
    )


def mark(
    ctx: Context,
    trajectory: Trajectory,
    plan: Sequence[Point],
    values: Mapping[tuple[str, int], Value],
    proposed: Mapping[int, str] | None = None,
) -> list[KeyAction]:
    """Every action between two neighbouring points, with the success rates before and after it.

    With `proposed` only actions of these turns, each with the model's reason beside the evidence.
    """
    world = ctx.worlds[trajectory.task.world]
    out = []
    tried = ctx.recipe.supervisor.continuations
    for i, point in enumerate(plan):
        last = i + 1 == len(plan)
        following = len(trajectory.turns) if last else plan[i + 1].turn
        if following > point.turn + 1 or (proposed is not None and point.turn not in proposed):
            continue
        before = values[(trajectory.id, point.token)]
        after = Value(tried * trajectory.solved, tried) if last else values[(trajectory.id, plan[i + 1].token)]
        if not before.tried or not after.tried:
            continue  # nothing is known there, which is not a rate of 0
        turn = trajectory.turns[point.turn]
        end = turn.token_end if last else min(turn.token_end, max(plan[i + 1].token, point.token + 1))
        text = ctx.renderer.decode(trajectory.record.ids[point.token : end])
        kind = world.kind(turn.message)
        counts = (before.solved, before.tried, after.solved, after.tried)
        why = narrate.why(kind, text, *counts)
        if proposed is not None and proposed[point.turn]:
            why += f"; the model's reason: {proposed[point.turn]}"
        sure = narrate.confidence(*counts)
        out.append(KeyAction(trajectory.id, point.turn, point.token, end, kind, why, sure, *counts))
    return out


def load_analyses(ctx: Context) -> list[Analysis]:
    """The analyses of this round."""
    return list(read_jsonl(ctx.run.folder(ctx.name("analyze")) / ANALYSES, Analysis))
