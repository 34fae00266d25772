"""What a phase's `use` table adds: token weights, rewards, controllers, how rollouts begin, views, takeovers, rewrites.

Each is one file of `signals/` that fills one slot. Here they are built and called; nothing here knows one by name. So
are the phase's source of tasks and what chooses among its groups.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from noria.core import named, registry
from noria.core.phase_checks import said
from noria.core.recipe_phases import JointPhase, Sampled, Validation
from noria.core.types import Task, Trajectory
from noria.signals import dynamic
from noria.signals.base import (
    BatchWeight,
    Controller,
    Floats,
    Observes,
    ReadsOutcomes,
    Reward,
    Rewrite,
    Rollout,
    Stateful,
    Takeover,
    Tokens,
    Transform,
    View,
)
from noria.signals.tis import Config as TisConfig
from noria.signals.tis import Tis
from noria.sources.base import Given, TaskSource
from noria.stages import rows as rows_of
from noria.stages.learning import Learner
from noria.stages.roller import Job
from noria.trainers.entropy import entropies
from noria.trainers.rows import Channel, Row, own_channel


class Hooks:
    """The further signals of one phase, by slot.

    Args:
        phase: whose `use` table is built.
        experts: the expert's trajectory of each task, for rollouts that begin with it.
        max_turns: the recipe's own bound on the turns of an episode.
        student: whose entropies weights over whole batches read.
    """

    def __init__(
        self, phase: Sampled, experts: Mapping[str, Trajectory] | None = None, max_turns: int = 0,
        student: Learner | None = None,
    ) -> None:  # fmt: skip
        self.phase, self.experts, self.max_turns, self.student = phase, experts or {}, max_turns, student
        self.by_name: dict[str, Any] = {}
        slots: dict[str, list[Any]] = {}
        for name, table in phase.use.items():
            module = registry.resolve("signals", table.module(name))
            built = module.build(module.Config(**table.options))
            self.by_name[name] = built
            slots.setdefault(module.SLOT, []).append(built)
        self.weights: list[Any] = slots.get("weight", [])
        shapers: list[Reward] = slots.get("reward", [])
        self.rewards = sorted(shapers, key=lambda shaper: not isinstance(shaper, ReadsOutcomes))
        self.controllers: list[Controller] = slots.get("controller", [])
        single = {slot: built[0] for slot, built in slots.items()}
        self.rollout: Rollout | None = single.get("rollout")
        self.view: View | None = single.get("view")
        self.takeover: Takeover | None = single.get("takeover")
        self.rewrite: Rewrite | None = single.get("rewrite")
        self.transform: Transform = single.get("transform") or dynamic.build(
            dynamic.Config(max_refills=phase.max_refills)
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
        """The metrics of a step that is over, or of a validation before a step."""
        for controller in self.controllers:
            controller.observe(facts)
        for reward in self.rewards:
            if isinstance(reward, Observes):
                reward.observe(facts)

    def job(self, job: Job, step: int) -> Job:
        """The job as the phase wants it at this step."""
        if self.phase.max_response:
            job = replace(job, max_response=self.phase.max_response)
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
        for branches in rows_of.rollouts(rows):
            tokens = rows_of.tokens_of(branches)
            factors = [] if self.tis is None else [("", self.tis.weigh(tokens))]
            factors += [(weight.family, weight.weigh(tokens)) for weight in self.weights if not _compares(weight)]
            for family, factor in factors:
                for row, part in zip(branches, rows_of.cut(factor, branches), strict=True):
                    _multiply(row, family, own, np.where(row.mask, part, 0.0))
        for weight in filter(_compares, self.weights):
            self._weigh_batch(weight, rows, own)
        every = np.concatenate(gaps) if gaps else np.zeros(1)
        return {"logp_diff/mean": float(every.mean()), "logp_diff/max": float(every.max(initial=0.0))}

    def _weigh_batch(self, weight: BatchWeight, rows: Sequence[Row], own: str) -> None:
        """Multiply a weight in that compares tokens over all rows that it concerns."""
        parts = [(row, part) for row in rows if (part := _part(row, weight.family, own)) is not None]
        assert self.student is not None
        found = entropies(self.student, [row for row, _ in parts], self.phase.temperature)
        batch = [
            Tokens(part.mask, row.roles, row.logp_mu, row.logp_old, row.spans, part.advantage, entropy)
            for (row, part), entropy in zip(parts, found, strict=True)
        ]
        for (row, _), factor in zip(parts, weight.weigh_batch(batch), strict=True):
            _multiply(row, weight.family, own, factor)

    def state(self) -> dict[str, Any]:
        """What a continued run must restore, by name."""
        return {name: built.state() for name, built in self.by_name.items() if isinstance(built, Stateful)}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, saved in state.items():
            self.by_name[name].restore(saved)


def selection_of(phase: Sampled) -> Transform:
    """What chooses among a step's groups: what the phase uses, else dynamic sampling."""
    return Hooks(phase).transform


def validation_of(phase: Sampled) -> Validation | None:
    """How the phase validates: as it says, or with the defaults where a signal needs it."""
    needed = any(isinstance(reward, Observes) and reward.needs_validation for reward in Hooks(phase).rewards)
    return phase.validation or (Validation() if needed else None)


def source_of(phase: Sampled, tasks: Mapping[str, Sequence[Task]], seed: int, rates: Path) -> TaskSource:
    """The phase's source of tasks. `rates` is the file of pass rates, which is there where the phase measures them.

    Raises:
        UserError: the source needs what is not there.
    """
    module, config = named.configured("sources", phase.task_source)
    measured = json.loads(rates.read_text(encoding="utf-8")) if rates.exists() else {}
    built: TaskSource = module.build(config, Given(tasks, seed, phase.steps * phase.prompts_per_step, measured))
    return built


def drawn_anew(phase: Sampled) -> list[object]:
    """What besides tasks and seeds decides the tasks that a phase draws; nothing under the default."""
    return [] if phase.task_source == "turns" else [phase.task_source]


def _compares(weight: Any) -> bool:
    return isinstance(weight, BatchWeight)


def _part(row: Row, family: str, own: str) -> Channel | None:
    """What the terms of a family train in a row; None where they have no part in it."""
    return own_channel(row) if not family or family == own else row.channels.get(family)


def _multiply(row: Row, family: str, own: str, factor: Floats) -> None:
    """Multiply a weight into the row's own streams and into its channels, where it concerns them."""
    if not family or family == own:
        row.weight = row.weight * factor
    for name, channel in row.channels.items():
        if not family or name == family:
            row.channels[name] = Channel(channel.mask, channel.weight * factor, channel.advantage)
