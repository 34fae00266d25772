"""The signal of phases with teachers: who scores what, what each model reads, and what is written beside the rollouts.

rows ─► (a view for the student, more context for the teacher) ─► pi_old ─► teachers, in order, each loaded once
     ─► takeover, rewrites ─► reference ─► token weights ─► the terms read what they need
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from noria.core import registry
from noria.core.errors import EngineError, UserError
from noria.core.recipe_phases import Distilled, DistillPhase
from noria.core.types import Task, Trajectory
from noria.losses.base import Batch, teacher_top
from noria.signals import teacher_k1
from noria.stages import rows as rows_of
from noria.stages.bank import ModelBank
from noria.stages.context import derive
from noria.stages.hooks import Hooks
from noria.stages.learning import Learner
from noria.stages.roller import Job
from noria.tokens.renderer import Renderer
from noria.trainers.local import with_current_reference
from noria.trainers.rows import Channel, Row, Seen, own_channel

#: Rows of each route on which the overlap of both top sets is measured.
PROBED = 8
#: Keys of a task's data under which it may name its route, the first that is there counts.
ROUTE_KEYS = ("teacher_route", "teacher_id", "opd_teacher", "data_source")


@dataclass(frozen=True)
class Means:
    """What signals may need of the run: worlds that verify, the renderer, experts' trajectories by task, a seed, the
    student, and the index of each route that a task may name beside the worlds."""

    worlds: Mapping[str, Any] = field(default_factory=dict)
    renderer: Renderer | None = None
    experts: Mapping[str, Trajectory] = field(default_factory=dict)
    max_turns: int = 0
    seed: int = 0
    student: Learner | None = None
    named: Mapping[str, int] = field(default_factory=dict)


def route_of(task: Task, routes: Mapping[str, int], named: Mapping[str, int]) -> int:
    """Index of the teacher that scores a task's rollouts: the one that the task names in its data, else its world's.

    Raises:
        UserError: the task names a route that the phase does not have.
    """
    key = next((key for key in ROUTE_KEYS if key in task.data), None)
    if key is None:
        return routes[task.world]
    known, wanted = {**routes, **named}, str(task.data[key])
    if wanted not in known:
        raise UserError(
            f"{key} of the task {task.id!r} must name a route of the phase: got {wanted!r}, expected one of "
            f"{', '.join(sorted(known))}{registry.nearest(wanted, sorted(known))} - name one of these, or add "
            "it to the phase's table `route`"
        )
    return known[wanted]


class Distillation:
    """The routed teachers' log-probabilities, or states, of the student's own tokens."""

    def __init__(
        self,
        phase: Distilled,
        bank: ModelBank,
        routes: Mapping[str, int],
        hooks: Hooks | None = None,
        means: Means | None = None,
    ) -> None:
        self.phase, self.bank, self.routes = phase, bank, routes
        self.hooks, self.means = hooks or Hooks(phase), means or Means()
        built = [registry.resolve("losses", name).build(table.config(name)) for name, table in phase.loss.items()]
        self.needs, self.top = {need for term in built for need in term.needs}, teacher_top(built)
        self.rewrite: Callable[[Batch], Batch] | None = None
        self.advantage: teacher_k1.TeacherK1 | None = None
        if isinstance(phase, DistillPhase):
            self.advantage = teacher_k1.TeacherK1(teacher_k1.Config(adv_ref=phase.adv_ref))
            if phase.adv_ref == "current":
                self.rewrite = with_current_reference
        self.step = 0
        self._waiting: list[tuple[Row, Trajectory]] = []
        self._foreseen: Sequence[Row] | None = None

    def begin(self, step: int) -> dict[str, float]:
        self.step, self._waiting = step, []
        return self.hooks.begin(step)

    def job(self, job: Job, step: int) -> Job:
        return self.hooks.job(job, step)

    def rows(self, group: int, rollouts: Sequence[Trajectory]) -> list[Row]:
        # Hitting the token cap is no failure here, and neither is an unknown outcome: no reward is used.
        return rows_of.kept([row for t in rollouts for row in rows_of.by_branch(t, partial(self.row, group=group))])

    def row(self, t: Trajectory, group: int) -> Row:
        """The row of one rollout, as the student is to read it and as its teacher is."""
        route = route_of(t.task, self.routes, self.means.named)
        row = rows_of.sampled(t, group, route)
        row.roles, row.solved = t.record.roles, t.solved
        if self.bank.sources[route].gold:
            row.seen = self._with_solution(row, t)
        if self.hooks.view is not None:
            row = _viewed(row, self.hooks.view.keep(row.mask, row.roles, derive(self.means.seed, t.id, self.step)))
        if self.hooks.rewrite is not None:
            self._waiting.append((row, t))
        return row

    def _with_solution(self, row: Row, t: Trajectory) -> Seen:
        """The world's solution stands at the start of the assistant's turn, before the student's first token."""
        assert self.means.renderer is not None
        solution = "\n".join(self.means.worlds[t.task.world].reference(t.task)) + "\n"
        told = np.array(self.means.renderer.encode(solution), dtype=np.int64)
        first = int(np.flatnonzero(row.mask)[0]) if row.mask.any() else len(row)
        at = np.arange(len(row)) + len(told) * (np.arange(len(row)) >= first)
        return Seen(np.concatenate([row.ids[:first], told, row.ids[first:]]), at)

    def foresee(self, rows: Sequence[Row]) -> None:
        self.bank.tick()
        self.bank.begin(rows, "hidden" in self.needs)
        self._foreseen = rows

    def prepare(self, rows: list[Row]) -> dict[str, float]:
        if self._foreseen is not rows:
            self.foresee(rows)
        self._foreseen = None
        unknown = self.bank.score(rows, "hidden" in self.needs, self.top)
        metrics = _left_out(rows, unknown)
        lost = {id(row) for row in unknown}
        metrics |= self._monitors([row for row in rows if id(row) not in lost])
        if self.hooks.takeover is not None:
            metrics |= self._take_over(rows)
        if self.hooks.rewrite is not None:
            metrics |= self._rewritten(rows)
        if "logp_ref" in self.needs:
            self.bank.refer(rows)
        if self.hooks.view is not None:
            for row in rows:  # under another view mu is not what was sampled from: there is nothing to correct
                row.logp_mu = row.logp_old
        metrics = self.hooks.weigh(rows, "opd") | metrics
        if self.advantage is not None:
            for row in rows:
                row.advantage = self.advantage(row.logp_teacher, row.logp_old)
        return metrics

    def _monitors(self, rows: Sequence[Row]) -> dict[str, float]:
        metrics: dict[str, float] = {}
        probing = self.phase.overlap_every and self.step % self.phase.overlap_every == 0
        for name, route in self.routes.items():
            mine = [row for row in rows if row.route == route]
            if not mine:
                continue
            k1 = np.concatenate([row.logp_old - row.logp_teacher for row in mine])
            mask = np.concatenate([row.mask for row in mine])
            found = teacher_k1.monitors(k1, mask.astype(int).tolist())
            metrics |= {f"distill/{key}/{name}": value for key, value in found.items()}
            if probing:
                probe = [replace(row, scored=list(row.scored)) for row in mine[:PROBED]]
                if not probe[0].scored:
                    self.bank.score(probe, states=True)
                metrics[f"distill/overlap/{name}"] = self.bank.overlap(probe)
        return metrics

    def _take_over(self, rows: Sequence[Row]) -> dict[str, float]:
        """From the first divergent window on the row is the teacher's: its tokens are imitated, the rest distilled."""
        hook, taken = self.hooks.takeover, 0
        assert hook is not None and self.means.renderer is not None
        for row in sorted(rows, key=lambda row: row.route):
            start = hook.start(row.logp_old - row.logp_teacher, row.mask)
            if start is not None:
                prefix = replace(row, ids=row.ids[:start])
                ends, seed = self.means.renderer.end_ids, derive(self.means.seed, self.step, row.group, start)
                (said,) = self.bank.generate(row.route, [prefix], hook.max_new_tokens, ends, seed)
                _replace_tail(row, start, said)
                taken += 1
            mine = row.mask.copy()
            mine[len(row) if start is None else start :] = False
            row.channels = {
                **row.channels, "opd": own_channel(row, mine), "ce": own_channel(row, row.mask & ~mine)
            }  # fmt: skip
        return {"takeover/frac": taken / max(1, len(rows))}

    def _rewritten(self, rows: list[Row]) -> dict[str, float]:
        """Short rewrites of the student's own answers join the batch as targets of `ce`; the rest has no part in it."""
        hook = self.hooks.rewrite
        assert hook is not None
        for row in rows:
            nothing = own_channel(row, np.zeros(len(row), dtype=np.bool_))
            row.channels = {**row.channels, "opd": row.channels.get("opd", own_channel(row)), "ce": nothing}
        single = [(row, t) for row, t in self._waiting if len(t.turns) == 1][: hook.per_step]
        made = [target for row, t in single if (target := self._rewrite_of(row, t)) is not None]
        rows += made
        self._waiting = []
        return {"rewrite/tried": float(len(single)), "rewrite/accepted": float(len(made))}

    def _rewrite_of(self, row: Row, t: Trajectory) -> Row | None:
        """The student, asked without the solution, says it again; None where that is no target."""
        hook, renderer, student = self.hooks.rewrite, self.means.renderer, self.bank.student
        assert hook is not None and renderer is not None and student is not None
        world = self.means.worlds[t.task.world]
        asked = renderer.prompt(replace(t.task, prompt=f"{t.task.prompt}\n{hook.ask(t.turns[0].message)}"))
        seed = derive(self.means.seed, "rewrite", t.id)
        said = student.continued(asked.ids, hook.max_new_tokens, renderer.end_ids, 1.0, seed)
        message = renderer.decode(said)
        episode = world.open(t.task)
        try:
            episode.act(message)
            outcome = episode.grade()
        finally:
            episode.close()
        answer = t.record.ids[t.turns[0].token_start : t.turns[0].token_end]
        valid = world.kind(message) != "malformed"
        if not hook.accepts(said, answer, said[-1] in renderer.end_ids, valid, outcome):
            return None
        prompt = renderer.prompt(t.task).ids
        target = Row.plain([*prompt, *said], [0] * len(prompt) + [1] * len(said), row.group, row.route)
        target.channels = {"ce": own_channel(target)}
        return target

    def observe(self, facts: Mapping[str, float]) -> None:
        self.hooks.observe(facts)

    def state(self) -> dict[str, Any]:
        return {"hooks": self.hooks.state(), "bank": self.bank.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.hooks.restore(state["hooks"])
        self.bank.restore(state["bank"])


def _left_out(rows: list[Row], unknown: Sequence[Row]) -> dict[str, float]:
    """A row that its teacher could not score is not distilled; what it has of reinforcement stays.

    Raises:
        EngineError: no row is left.
    """
    if not unknown:
        return {}
    share = len(unknown) / len(rows)
    for row in unknown:
        row.channels.pop("opd", None)
    gone = {id(row) for row in unknown if not row.channels}
    rows[:] = [row for row in rows if id(row) not in gone]
    if not rows:
        raise EngineError("a step must have rows to learn from: its teachers could score none of them")
    return {"distill/unknown_frac": share}


def _viewed(row: Row, keep: Any) -> Row:
    """The row with only the tokens `keep` for the student; the teacher still reads what it would have read."""
    seen = row.seen or Seen(row.ids, np.arange(len(row)))
    out = Row.plain(row.ids[keep].tolist(), row.mask[keep].astype(int).tolist(), row.group, row.route)
    out.logp_mu, out.solved = row.logp_mu[keep], row.solved
    out.roles, out.seen = tuple(row.roles[i] for i in keep), Seen(seen.ids, seen.at[keep])
    return out


def _replace_tail(row: Row, start: int, said: Sequence[int]) -> None:
    """The row's tokens from `start` on become `said`, which the student did not sample and which are all trained."""
    new = len(said)
    row.ids = np.concatenate([row.ids[:start], np.array(said, dtype=np.int64)])
    row.mask = np.concatenate([row.mask[:start], np.ones(new, dtype=np.bool_)])
    row.weight = np.concatenate([row.weight[:start], np.ones(new)])
    for name in ("advantage", "logp_old", "logp_mu", "logp_teacher"):
        setattr(row, name, np.concatenate([getattr(row, name)[:start], np.zeros(new)]))
    row.roles = (*row.roles[:start], *("answer",) * new)
    row.spans, row.seen = (), None
    for scored in row.scored:
        scored.hidden, scored.at = scored.hidden[scored.at < start], scored.at[scored.at < start]
    row.channels = {
        name: Channel(
            *(np.concatenate([part[:start], np.zeros(new, part.dtype)]) for part in (c.mask, c.weight, c.advantage))
        )
        for name, c in row.channels.items()
    }
