"""Phase signals: what turns a finished group of rollouts into rows with advantages and weights.

Each class here fills one slot of the training loop (`stages.loop`), which knows none of them by name:
`begin` sets coefficients, `rows` gives a group's rows their signal, `prepare` adds what needs a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from noria.core import registry
from noria.core.recipe_phases import (
    ADVANTAGE,
    Distilled,
    DistillPhase,
    EfficiencyPhase,
    JointPhase,
    RlPhase,
    Sampled,
    SignalTable,
    advantage_of,
)  # fmt: skip
from noria.core.types import Trajectory
from noria.losses.base import Batch, teacher_top
from noria.signals import hmpo
from noria.signals.base import Floats, PerTurn, Played, Reports
from noria.signals.key_action import Config as KeyActionConfig
from noria.signals.key_action import KeyActionWeight
from noria.stages import rows as rows_of
from noria.stages.bank import ModelBank
from noria.stages.distil import Distillation, Means
from noria.stages.hooks import Hooks
from noria.stages.progress import states_of
from noria.stages.roller import Job
from noria.trainers.rows import Channel, Row, own_channel


class Signal(Protocol):
    """What a sampled phase plugs into the loop."""

    #: rewrites a micro-batch once the current log-probabilities are known; None = nothing to rewrite
    rewrite: Callable[[Batch], Batch] | None

    def begin(self, step: int) -> dict[str, float]:
        """The coefficient of each loss term at a step; called before the step's rollouts are collected."""
        ...

    def job(self, job: Job, step: int) -> Job:
        """A rollout's job as the phase wants it."""
        ...

    def rows(self, group: int, rollouts: Sequence[Trajectory]) -> list[Row]:
        """Rows of one finished group; empty where the group teaches nothing."""
        ...

    def foresee(self, rows: Sequence[Row]) -> None:
        """Ask other models for what `prepare` of these rows will want of them; they may answer meanwhile."""
        ...

    def prepare(self, rows: list[Row]) -> dict[str, float]:
        """Fill in what needs a model, once `logp_old` is known; may change the list; returns metrics."""
        ...

    def observe(self, facts: Mapping[str, float]) -> None:
        """The metrics of a step that is over."""
        ...

    def state(self) -> dict[str, Any]:
        """What a continued phase must restore."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None: ...


class GroupAdvantage:
    """Group-relative policy gradient: rewards shaped, then compared in the group; credit; token weights."""

    rewrite: Callable[[Batch], Batch] | None = None

    def __init__(
        self,
        phase: RlPhase | JointPhase | EfficiencyPhase,
        worlds: Mapping[str, Any],
        key_kinds: Mapping[str, Sequence[str]],
        hooks: Hooks | None = None,
        bank: ModelBank | None = None,
    ) -> None:
        named = ADVANTAGE if isinstance(phase, EfficiencyPhase) else advantage_of(phase)
        options = SignalTable() if isinstance(phase, EfficiencyPhase) else phase.advantage
        module = registry.resolve("signals", named)
        self.advantage = module.build(module.Config(**options.options))
        kappa = 1.0 if isinstance(phase, EfficiencyPhase) else phase.credit.key_action
        self.credit = KeyActionWeight(KeyActionConfig(kappa=kappa))
        self.worlds, self.key_kinds, self.bank = worlds, key_kinds, bank
        self.hooks = hooks or Hooks(phase)
        self.shapers = list(self.hooks.rewards)
        self.refers = needs_reference(phase)
        #: what turns get beside the advantage, by rollout of the group at hand
        self._turns: dict[str, Floats] = {}

    def begin(self, step: int) -> dict[str, float]:
        return self.hooks.begin(step)

    def job(self, job: Job, step: int) -> Job:
        return self.hooks.job(job, step)

    def rewards(self, rollouts: Sequence[Trajectory]) -> list[float | None]:
        """The verifier's rewards, shaped by what the phase uses; None where unknown."""
        rewards = [t.outcome.reward for t in rollouts]
        self._turns = {}
        if self.shapers:
            group = self._played(rollouts)
            for shaper in self.shapers:
                rewards = shaper.shape(rewards, group)
            crediting = [shaper for shaper in self.shapers if isinstance(shaper, PerTurn)]
            for t, played, reward in zip(rollouts, group, rewards, strict=True):
                if crediting and reward is not None:
                    self._turns[t.id] = np.sum([shaper.turns(played) for shaper in crediting], axis=0)
        return rewards

    def _played(self, rollouts: Sequence[Trajectory]) -> list[Played]:
        rows = [rows_of.sampled(t, 0) for t in rollouts]
        if any(shaper.needs_reference for shaper in self.shapers):
            assert self.bank is not None
            self.bank.refer(rows)
        replays = any(isinstance(shaper, PerTurn) and shaper.needs_states for shaper in self.shapers)
        out = []
        for t, row in zip(rollouts, rows, strict=True):
            states = states_of(self.worlds[t.task.world], t) if replays else ()
            reference = np.zeros(0) if row.logp_ref is None else row.logp_ref[row.mask]
            out.append(
                Played(
                    t.action_tokens, t.stop == "token_limit", t.outcome.parts, len(t.turns),
                    row.logp_mu[row.mask], reference, states,
                )
            )  # fmt: skip
        return out

    def advantages(self, rollouts: Sequence[Trajectory]) -> list[float | None]:
        """One per rollout; None where it takes no part: its reward is unknown, or its group has no signal.

        A rollout at the mean of a group with signal has advantage 0 and takes part: it counts in every denominator,
        and terms without an advantage (entropy, the frozen reference) read it.
        """
        rewards = self.rewards(rollouts)
        found: Floats = self.advantage(rewards)
        known = [t.outcome.known and reward is not None for t, reward in zip(rollouts, rewards, strict=True)]
        if not found[known].any() and not any(credit.any() for credit in self._turns.values()):
            return [None] * len(rollouts)
        return [float(value) if there else None for value, there in zip(found, known, strict=True)]

    def rows(self, group: int, rollouts: Sequence[Trajectory]) -> list[Row]:
        pairs = zip(rollouts, self.advantages(rollouts), strict=True)
        known = [(t, partial(self.row, group=group, advantage=a)) for t, a in pairs if a is not None]
        return rows_of.kept([row for t, make in known for row in self.credited(rows_of.by_branch(t, make))])

    def credited(self, branches: list[Row]) -> list[Row]:
        """The rows of one rollout, key actions weighed against all that it said, not against one branch alone."""
        if len(branches) > 1:
            tokens = rows_of.tokens_of(branches)
            for row, weight in zip(branches, rows_of.cut(self.credit.weigh(tokens), branches), strict=True):
                if "rl" in row.channels:
                    row.channels["rl"] = replace(row.channels["rl"], weight=weight)
                elif not row.channels:
                    row.weight = weight
        return branches

    def row(self, trajectory: Trajectory, group: int, advantage: float, route: int = 0) -> Row:
        """The row of one rollout with its advantage and its credit."""
        row = rows_of.sampled(trajectory, group, route)
        row.advantage[:] = advantage
        if trajectory.id in self._turns:
            for turn, credit in zip(trajectory.turns, self._turns[trajectory.id], strict=True):
                row.advantage[turn.token_start : turn.token_end] += credit
        row.spans = tuple(self.spans(trajectory))
        row.weight = self.credit(row.mask.astype(int).tolist(), row.spans)
        row.roles, row.solved = trajectory.record.roles, trajectory.solved
        return row

    def spans(self, trajectory: Trajectory) -> list[tuple[int, int]]:
        """Token spans of the turns whose kind the supervisor found decisive in this world."""
        world = trajectory.task.world
        decisive = self.key_kinds.get(world, ())
        if not decisive:
            return []
        kind = self.worlds[world].kind
        return [(t.token_start, t.token_end) for t in trajectory.turns if kind(t.message) in decisive]

    def foresee(self, rows: Sequence[Row]) -> None:
        if self.refers:
            assert self.bank is not None
            self.bank.begin_reference(rows)

    def prepare(self, rows: list[Row]) -> dict[str, float]:
        if self.refers:
            assert self.bank is not None
            self.bank.refer(rows)
        return self.report() | self.hooks.weigh(rows, "rl")

    def report(self) -> dict[str, float]:
        """Metrics of the rewards' own."""
        found: dict[str, float] = {}
        for shaper in self.shapers:
            found |= shaper.report() if isinstance(shaper, Reports) else {}
        return found

    def observe(self, facts: Mapping[str, float]) -> None:
        self.hooks.observe(facts)

    def state(self) -> dict[str, Any]:
        return {"hooks": self.hooks.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.hooks.restore(state["hooks"])


class Efficiency(GroupAdvantage):
    """HMPO: among the correct rollouts of a group the shorter are paid; a group statistic, then group mean."""

    def __init__(self, phase: EfficiencyPhase, hooks: Hooks | None = None, bank: ModelBank | None = None) -> None:
        super().__init__(phase, {}, {}, hooks, bank)
        self.shapers.append(hmpo.build(hmpo.Config(lam=phase.offset, boundary=phase.boundary)))


class Joint:
    """alpha * L_OPD + beta * L_RL on the same rollouts; with either factor 0 it does exactly what the other does alone.

    A rollout that only one part can use (an unknown outcome, a group without variance) is seen by that part only.
    """

    rewrite: Callable[[Batch], Batch] | None = None

    def __init__(self, rl: GroupAdvantage, opd: Distillation) -> None:
        self.rl, self.opd, self.hooks = rl, opd, rl.hooks

    def begin(self, step: int) -> dict[str, float]:
        return self.opd.begin(step)

    def job(self, job: Job, step: int) -> Job:
        return self.hooks.job(job, step)

    def rows(self, group: int, rollouts: Sequence[Trajectory]) -> list[Row]:
        if not self.hooks.alpha:
            return self.rl.rows(group, rollouts)
        if not self.hooks.beta:
            return self.opd.rows(group, rollouts)
        out: list[Row] = []
        for trajectory, advantage in zip(rollouts, self.rl.advantages(rollouts), strict=True):
            out += self.rl.credited(rows_of.by_branch(trajectory, partial(self._row, group=group, advantage=advantage)))
        return rows_of.kept(out)

    def _row(self, trajectory: Trajectory, group: int, advantage: float | None) -> Row:
        row = self.opd.row(trajectory, group)
        row.channels["opd"] = own_channel(row)
        if advantage is not None:
            own = self.rl.row(trajectory, group, advantage)
            row.spans = own.spans
            row.channels["rl"] = Channel(row.mask, own.weight, own.advantage)
        return row

    def foresee(self, rows: Sequence[Row]) -> None:
        (self.opd if self.hooks.alpha else self.rl).foresee(rows)

    def prepare(self, rows: list[Row]) -> dict[str, float]:
        if not self.hooks.alpha:
            self.opd.bank.tick()  # moving teachers follow the student while nothing is asked of them too
            return self.rl.prepare(rows)
        return self.rl.report() | self.opd.prepare(rows)

    def observe(self, facts: Mapping[str, float]) -> None:
        self.hooks.observe(facts)

    def state(self) -> dict[str, Any]:
        return self.opd.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.opd.restore(state)


def needs_reference(phase: Sampled) -> bool:
    """Whether a term of the phase reads the frozen reference."""
    return any(
        "logp_ref" in registry.resolve("losses", name).build(table.config(name)).needs
        for name, table in phase.loss.items()
    )


def read_of_teachers(phase: Distilled) -> int | None:
    """How many of its teachers' likeliest tokens a phase reads, beside the student's own; None where it reads more."""
    hooks = Hooks(phase)
    built = (registry.resolve("losses", name).build(table.config(name)) for name, table in phase.loss.items())
    return None if phase.overlap_every or hooks.takeover is not None else teacher_top(built)


def needs_bank(phase: Sampled) -> bool:
    """Whether the phase needs a second model: for teachers, or for the frozen reference."""
    hooked = any(reward.needs_reference for reward in Hooks(phase).rewards)
    return isinstance(phase, Distilled) or hooked or needs_reference(phase)


def build(
    phase: Sampled,
    worlds: Mapping[str, Any],
    key_kinds: Mapping[str, Sequence[str]],
    bank: ModelBank | None,
    routes: Mapping[str, int],
    means: Means | None = None,
) -> Signal:
    """The signal of a phase."""
    means = means or Means()
    hooks = Hooks(phase, means.experts, means.max_turns, means.student)
    if isinstance(phase, Distilled):
        assert bank is not None
        opd = Distillation(phase, bank, routes, hooks, means)
        if isinstance(phase, JointPhase):
            return Joint(GroupAdvantage(phase, worlds, key_kinds, hooks, bank), opd)
        return opd
    if isinstance(phase, EfficiencyPhase):
        return Efficiency(phase, hooks, bank)
    assert isinstance(phase, RlPhase)
    return GroupAdvantage(phase, worlds, key_kinds, hooks, bank)


__all__ = ["DistillPhase", "Distillation", "Efficiency", "GroupAdvantage", "Joint", "Means", "Signal", "build"]
