"""What a phase's `use` table adds: token weights, rewards, controllers, how rollouts begin, views, takeovers, rewrites.

Each is one file of `signals/` that fills one slot. Here they are built and called; nothing here knows one by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from noria.core import registry
from noria.core.phase_checks import said
from noria.core.recipe_phases import JointPhase, Sampled
from noria.core.types import Trajectory
from noria.signals.base import Floats, Stateful, Tokens
from noria.signals.tis import Config as TisConfig
from noria.signals.tis import Tis
from noria.stages.roller import Job
from noria.trainers.rows import Channel, Row


class Hooks:
    """The further signals of one phase, by slot.

    Args:
        phase: whose `use` table is built.
        experts: the expert's trajectory of each task, for rollouts that begin with it.
        max_turns: the recipe's own bound on the turns of an episode.
    """

    def __init__(self, phase: Sampled, experts: Mapping[str, Trajectory] | None = None, max_turns: int = 0) -> None:
        self.phase, self.experts, self.max_turns = phase, experts or {}, max_turns
        self.by_name: dict[str, Any] = {}
        slots: dict[str, list[Any]] = {}
        for name, table in phase.use.items():
            module = registry.resolve("signals", table.module(name))
            built = module.build(module.Config(**table.options))
            self.by_name[name] = built
            slots.setdefault(module.SLOT, []).append(built)
        self.weights, self.rewards = slots.get("weight", []), slots.get("reward", [])
        self.controllers = slots.get("controller", [])
        self.rollout, self.view, self.takeover, self.rewrite = (
            slots[slot][0] if slot in slots else None for slot in ("rollout", "view", "takeover", "rewrite")
        )
        self.wants_experts = self.rollout is not None and self.rollout.needs_expert
        self.tis = Tis(TisConfig(cap=phase.tis_cap)) if phase.tis_cap > 0 else None
        self.alpha, self.beta = (phase.alpha, phase.beta) if isinstance(phase, JointPhase) else (1.0, 1.0)
        self.families = {name: said("losses", name, "FAMILY") or "" for name in phase.loss}

    def begin(self, step: int) -> dict[str, float]:
        """Coefficients of the terms at a step, by what the recipe says and the controllers make of it."""
        phase = self.phase
        values = {name: table.coef for name, table in phase.loss.items()}
        if isinstance(phase, JointPhase):
            values |= {"alpha": phase.alpha, "beta": phase.beta}
        for controller in self.controllers:
            values[controller.target] = controller.value(step, phase.steps, values[controller.target])
        self.alpha, self.beta = values.pop("alpha", 1.0), values.pop("beta", 1.0)
        factor = {"opd": self.alpha, "rl": self.beta, "": 1.0}
        return {name: value * factor[str(self.families[name])] for name, value in values.items()}

    def observe(self, facts: Mapping[str, float]) -> None:
        """The metrics of a step that is over."""
        for controller in self.controllers:
            controller.observe(facts)

    def job(self, job: Job, step: int) -> Job:
        """The job as the phase wants it at this step."""
        if self.rollout is None:
            return job
        expert = self.experts.get(job.task.id)
        begin = self.rollout.begin(step, len(expert.turns) if expert else 0, self.max_turns)
        start = expert if begin.turns else None
        return replace(job, start=start, start_turn=begin.turns if start else 0, max_turns=begin.max_turns)

    def weigh(self, rows: Sequence[Row], own: str) -> dict[str, float]:
        """Multiply every token weight in, once both log-probabilities are known; says how far the engine is away.

        `own` is the family ("rl" or "opd") that the rows' own streams belong to.
        """
        gaps = [np.abs(row.logp_old - row.logp_mu)[row.mask] for row in rows]
        for row in rows:
            tokens = Tokens(row.mask, row.roles, row.logp_mu, row.logp_old, row.spans)
            factors = [] if self.tis is None else [("", self.tis.weigh(tokens))]
            factors += [(weight.family, weight.weigh(tokens)) for weight in self.weights]
            for family, factor in factors:
                _multiply(row, family, own, np.where(row.mask, factor, 0.0))
        every = np.concatenate(gaps) if gaps else np.zeros(1)
        return {"logp_diff/mean": float(every.mean()), "logp_diff/max": float(every.max(initial=0.0))}

    def state(self) -> dict[str, Any]:
        """What a continued run must restore, by name."""
        return {name: built.state() for name, built in self.by_name.items() if isinstance(built, Stateful)}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, saved in state.items():
            self.by_name[name].restore(saved)


def _multiply(row: Row, family: str, own: str, factor: Floats) -> None:
    """Multiply a weight into the row's own streams and into its channels, where it concerns them."""
    if not family or family == own:
        row.weight = row.weight * factor
    for name, channel in row.channels.items():
        if not family or name == family:
            row.channels[name] = Channel(channel.mask, channel.weight * factor, channel.advantage)
