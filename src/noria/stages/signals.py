"""Phase signals: what turns a finished group of rollouts into rows with advantages and weights.

Each class here fills one slot of the training loop (`stages.loop`), which knows none of them by name:
`reward` scores a group, `annotate` gives its rows their signal, `prepare` adds what needs a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from noria.core import registry
from noria.core.recipe_phases import DistillPhase, EfficiencyPhase, RlPhase, Sampled
from noria.core.types import Trajectory
from noria.losses.base import Batch
from noria.signals import hmpo, teacher_k1, tis
from noria.signals.key_action import Config as KeyActionConfig
from noria.signals.key_action import KeyActionWeight
from noria.stages import rows as rows_of
from noria.stages.bank import ModelBank
from noria.trainers.rows import Row


class Signal(Protocol):
    """What a sampled phase plugs into the loop."""

    #: rewrites a micro-batch once the current log-probabilities are known; None = nothing to rewrite
    rewrite: Callable[[Batch], Batch] | None

    def rows(self, group: int, rollouts: Sequence[Trajectory]) -> list[Row]:
        """Rows of one finished group; empty where the group teaches nothing."""
        ...

    def prepare(self, rows: Sequence[Row]) -> dict[str, float]:
        """Fill in what needs a model, once `logp_old` is known; returns metrics."""
        ...


class GroupAdvantage:
    """Group-relative policy gradient with key-action credit and truncated importance weights."""

    rewrite: Callable[[Batch], Batch] | None = None

    def __init__(
        self, phase: RlPhase, worlds: Mapping[str, Any], key_kinds: Mapping[str, Sequence[str]]
    ) -> None:
        module = registry.resolve("signals", phase.signal)
        self.advantage = module.build(module.Config())
        self.credit = KeyActionWeight(KeyActionConfig(kappa=phase.credit.key_action))
        self.tis = tis.Tis(tis.Config(cap=phase.tis_cap))
        self.worlds, self.key_kinds = worlds, key_kinds

    def rewards(self, rollouts: Sequence[Trajectory]) -> list[float | None]:
        """The verifier's rewards; None where unknown."""
        return [t.outcome.reward for t in rollouts]

    def rows(self, group: int, rollouts: Sequence[Trajectory]) -> list[Row]:
        advantages = self.advantage(self.rewards(rollouts))
        out = []
        for trajectory, advantage in zip(rollouts, advantages, strict=True):
            if not trajectory.outcome.known or advantage == 0.0:
                continue
            row = rows_of.sampled(trajectory, group)
            row.advantage[:] = advantage
            row.weight = self.credit(row.mask.astype(int).tolist(), self.spans(trajectory))
            out.append(row)
        return rows_of.kept(out)

    def spans(self, trajectory: Trajectory) -> list[tuple[int, int]]:
        """Token spans of the turns whose kind the supervisor found decisive in this world."""
        world = trajectory.task.world
        decisive = self.key_kinds.get(world, ())
        kind = self.worlds[world].kind
        return [(t.token_start, t.token_end) for t in trajectory.turns if kind(t.message) in decisive]

    def prepare(self, rows: Sequence[Row]) -> dict[str, float]:
        return correct_engine(rows, self.tis)


class Efficiency(GroupAdvantage):
    """HMPO: among the correct rollouts of a group the shorter are paid; a group statistic, then group mean."""

    def __init__(self, phase: EfficiencyPhase) -> None:
        module = registry.resolve("signals", "group_mean")
        self.advantage = module.build(module.Config())
        self.pay = hmpo.Hmpo(hmpo.Config(lam=phase.offset, boundary=phase.boundary))
        self.credit = KeyActionWeight(KeyActionConfig(kappa=1.0))
        self.tis = tis.Tis(tis.Config(cap=phase.tis_cap))
        self.worlds, self.key_kinds = {}, {}
        self.seen: list[hmpo.HmpoGroup] = []

    def rewards(self, rollouts: Sequence[Trajectory]) -> list[float | None]:
        lengths = [t.record.action_tokens for t in rollouts]
        paid = self.pay([t.outcome.reward for t in rollouts], lengths, [t.stop == "token_limit" for t in rollouts])
        self.seen.append(paid)
        return [None] * len(rollouts) if paid.drop else list(paid.rewards)

    def spans(self, trajectory: Trajectory) -> list[tuple[int, int]]:
        return []

    def prepare(self, rows: Sequence[Row]) -> dict[str, float]:
        metrics = hmpo.diagnose(self.seen)
        self.seen = []
        return metrics | super().prepare(rows)


class Distillation:
    """k1 policy gradient towards the routed teacher's own log-probabilities of the student's tokens."""

    def __init__(self, phase: DistillPhase, bank: ModelBank, routes: Mapping[str, int]) -> None:
        self.phase, self.bank, self.routes = phase, bank, routes
        self.advantage = teacher_k1.TeacherK1(teacher_k1.Config(adv_ref=phase.adv_ref))
        self.tis = tis.Tis(tis.Config(cap=phase.tis_cap))
        self.rewrite: Callable[[Batch], Batch] | None = None
        if phase.adv_ref == "current":
            from noria.trainers.local import with_current_reference

            self.rewrite = with_current_reference

    def rows(self, group: int, rollouts: Sequence[Trajectory]) -> list[Row]:
        # Hitting the token cap is no failure here, and neither is an unknown outcome: no reward is used.
        return rows_of.kept([rows_of.sampled(t, group, self.routes[t.task.world]) for t in rollouts])

    def prepare(self, rows: Sequence[Row]) -> dict[str, float]:
        self.bank.score(rows)
        metrics = correct_engine(rows, self.tis)
        for name, route in self.routes.items():
            mine = [row for row in rows if row.route == route]
            for row in mine:
                row.advantage = self.advantage(row.logp_teacher, row.logp_old)
            if mine:
                k1 = np.concatenate([row.logp_old - row.logp_teacher for row in mine])
                mask = np.concatenate([row.mask for row in mine])
                found = teacher_k1.monitors(k1, mask.astype(int).tolist())
                metrics |= {f"distill/{key}/{name}": value for key, value in found.items()}
        return metrics


def correct_engine(rows: Sequence[Row], weight: tis.Tis) -> dict[str, float]:
    """Multiply the truncated importance weight in; report how far the trainer is from the engine."""
    gaps = [np.abs(row.logp_old - row.logp_mu)[row.mask] for row in rows]
    for row in rows:
        row.weight = row.weight * np.where(row.mask, weight(row.logp_old, row.logp_mu), 0.0)
    every = np.concatenate(gaps) if gaps else np.zeros(1)
    return {"logp_diff/mean": float(every.mean()), "logp_diff/max": float(every.max(initial=0.0))}


def build(
    phase: Sampled,
    worlds: Mapping[str, Any],
    key_kinds: Mapping[str, Sequence[str]],
    bank: ModelBank | None,
    routes: Mapping[str, int],
) -> Signal:
    """The signal of a phase."""
    if isinstance(phase, DistillPhase):
        assert bank is not None
        return Distillation(phase, bank, routes)
    if isinstance(phase, EfficiencyPhase):
        return Efficiency(phase)
    assert isinstance(phase, RlPhase)
    return GroupAdvantage(phase, worlds, key_kinds)
