"""The step: one asynchronous loop over which reinforcement, distillation and token efficiency are recipes.

      task source ──groups──► actors (worker processes) ──rollouts──► groups in order of admission
           ▲                       ▲                                        │ reward, annotate (signal)
           │ admits while          │ weights, version + 1                   ▼
           │ groups ahead <        └───────────────────── learner: foresee ► pi_old ► prepare ► mini-batches ► optimiser
           └ (1 + max_staleness) · prompts_per_step

Actor and learner run at the same time. Staleness is bounded by admission alone: the actor may be ahead by
`max_staleness` steps, and no rollout is thrown away for being slow. Groups are consumed in the order in which they
were admitted, so fast tasks have no advantage. After each step everything that a continuation needs is saved (see
`stages.checkpoint`): weights, optimiser, the cursor of consumed groups, finished rollouts that wait, what is in flight.
A killed phase goes on there: no group is trained twice or left out, and only rollouts in flight are done again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from noria.core import registry
from noria.core.recipe_phases import Optimised, Sampled
from noria.core.store import Artifact
from noria.core.types import Trajectory
from noria.losses.base import Loss
from noria.sources.base import TaskSource
from noria.stages.actor import Actor, workers_for
from noria.stages.checkpoint import Keeper
from noria.stages.context import Context, derive
from noria.stages.hooks import selection_of
from noria.stages.jobs import parts
from noria.stages.learning import Learner
from noria.stages.signals import Signal
from noria.stages.validate import Validator
from noria.trainers.local import BadStep
from noria.trainers.rows import Row

#: Groups that the message of a bad step names.
NAMED_GROUPS = 4


@dataclass
class Phase:
    """One sampled phase at work."""

    ctx: Context
    work: Artifact
    config: Sampled
    trainer: Learner
    signal: Signal
    source: TaskSource
    label: str
    keeper: Keeper
    validator: Validator | None = None

    def run(self) -> None:
        """Train for `config.steps` steps from where the saved state stands.

        Raises:
            EngineError: an actor died too often.
            BadStep: a step was not finite, or the engine was further from the trainer than `max_logp_diff`; the last
                good state is kept.
            UserError: the saved state is of another model or of other data, or there are fewer workers than actors.
        """
        c, ctx = self.config, self.ctx
        self.trainer.configure(c.lr, c.betas, c.weight_decay, c.grad_norm)
        workers = workers_for(c.actors, ctx.pool.size)
        ordered = c.max_staleness == 0
        actor = Actor(ctx, self.source, c.rollouts_per_prompt, ctx.seed(self.label), workers, ordered)
        step, cursor, consumed = self._begin(actor)
        terms = build_terms(c)
        while step < c.steps:
            began = time.monotonic()
            validated = self._validate(actor, step)
            coefficients = self.signal.begin(step)
            actor.shape = partial(self.signal.job, step=step)
            ahead = (1 + c.max_staleness) * c.prompts_per_step
            rows, groups, facts = self._collect(actor, cursor, ahead)
            waited = time.monotonic() - began
            cursor += len(groups)
            if facts["refill/capped"]:
                ctx.run.event("capped", stage=self.label, step=step + 1, groups=len(groups), wanted=c.prompts_per_step)
            # What begins before the weights move may be trained `max_staleness` steps from here, no later.
            if step + 1 < c.steps:
                actor.admit(cursor + c.max_staleness * c.prompts_per_step)
            facts |= self._learn(rows, terms, coefficients, step)
            self.signal.observe(facts)
            step += 1
            consumed += [[g, self.source.task(g).id] for g in groups]
            actor.load(self.trainer.weights(), step, c.temperature)
            facts |= {**validated, "time/wait": waited, "time/step": time.monotonic() - began}
            row: dict[str, float | int | str] = {"phase": self.label, "step": step, **facts}
            self.keeper.save(
                step, self.trainer.state(), row,
                signal=self.signal.state(), cursor=cursor, consumed=consumed, actor=actor.state(),
                source=self.source.state(),
            )  # fmt: skip
            ctx.run.metrics(row | {"time/step": time.monotonic() - began})
            self.work.progress(step, c.steps, reward=round(facts["reward/mean"], 3))
        ctx.pool.reset()
        (self.work.path / "groups.json").write_text(json.dumps(consumed), encoding="utf-8")
        self.work.count_out(groups=len(consumed), steps=step)

    def _collect(self, actor: Actor, cursor: int, ahead: int) -> tuple[list[Row], list[int], dict[str, float]]:
        """Consume groups in order until enough of them teach something, or the cap of refills is reached."""
        c = self.config
        choose = selection_of(c)
        made: list[list[Row]] = []
        rollouts: list[Trajectory] = []
        chosen = choose([], c.prompts_per_step)
        while chosen.refill:
            group = cursor + len(made)
            actor.admit(max(group + 1, cursor + ahead))
            finished = actor.take(group)
            rollouts += finished
            self.source.observe(group, [t.outcome for t in finished])
            made.append(self.signal.rows(group, finished))
            chosen = choose([bool(rows) for rows in made], c.prompts_per_step)
        facts = describe(rollouts, len(made), len(chosen.kept), self._version_now(actor))
        rows = [row for group in chosen.kept for row in made[group]]
        return rows, list(range(cursor, cursor + len(made))), facts | {"refill/capped": float(chosen.capped)}

    def _validate(self, actor: Actor, step: int) -> dict[str, float]:
        """Measure the policy that the step begins with, where it is time; a continued phase measures it again."""
        if self.validator is None or not self.validator.due(step):
            return {}
        found = self.validator.measure(actor.ask)
        self.signal.observe(found)
        return found

    def _located(self, fault: BadStep, step: int, groups: Sequence[int]) -> BadStep:
        """The fault with its step, and its groups with their tasks."""
        named = ", ".join(f"{group} ({self.source.task(group).id})" for group in groups[:NAMED_GROUPS])
        if len(groups) > NAMED_GROUPS:
            named += f" and {len(groups) - NAMED_GROUPS} more"
        where = f"; groups {named}" if groups else ""
        return BadStep(f"{self.label} step {step + 1}: {fault}{where}; the state after step {step} is kept", fault.rows)

    @staticmethod
    def _version_now(actor: Actor) -> int:
        return actor.weights.version if actor.weights else 0

    def _learn(
        self, rows: list[Row], terms: Mapping[str, Loss], coefficients: Mapping[str, float], step: int
    ) -> dict[str, float]:
        c = self.config
        facts: dict[str, float] = {"rows": float(len(rows))}
        if not rows:
            return facts
        keep = c.tokens_per_micro_batch if c.minibatches == 1 else 0
        self.signal.foresee(rows)
        for row, logp in zip(rows, self.trainer.score(rows, c.temperature, keep=keep), strict=True):
            row.logp_old = logp
        facts |= self.signal.prepare(rows)
        self._compare(facts["logp_diff/mean"], step)
        self.trainer.set_lr(c.lr * schedule(c, step))
        found: list[dict[str, float]] = []
        groups = {id(row): row.group for row in rows}
        for part in split(rows, c.minibatches, derive(self.ctx.recipe.seed, self.label, step)):
            try:
                found.append(
                    self.trainer.step(
                        part, terms, coefficients, c.temperature, c.tokens_per_micro_batch, self.signal.rewrite
                    )
                )
            except BadStep as fault:
                self.ctx.pool.reset()
                raise self._located(fault, step, sorted({groups[id(part[i])] for i in fault.rows})) from fault
        for key in found[0]:
            facts[key] = float(np.mean([f[key] for f in found if key in f]))
        return facts

    def _compare(self, gap: float, step: int) -> None:
        """Raises BadStep where engine and trainer disagree about the sampled tokens by more than the phase allows."""
        bound = self.config.max_logp_diff
        if bound and gap > bound:
            self.ctx.pool.reset()
            fault = BadStep(
                f"mean |logp_old - logp_mu| must be at most max_logp_diff = {bound}: got {gap:.4g} nats, engine and "
                "trainer disagree about the same tokens - see whether weights arrive and temperatures agree, lower "
                "max_staleness, or raise max_logp_diff"
            )
            raise self._located(fault, step, ())

    def _begin(self, actor: Actor) -> tuple[int, int, list[list[Any]]]:
        """Start, or go on from the saved state: the step, the cursor and the groups consumed so far."""
        state = self.keeper.resume()
        if state is not None:
            self.trainer.restore(state["trainer"])
            self.signal.restore(state["signal"])
            self.source.restore(state.get("source", {}))
        self.ctx.pool.reset()
        step = 0 if state is None else state["step"]
        actor.load(self.trainer.weights(), step, self.config.temperature)
        if state is None:
            return 0, 0, []
        actor.restore(state["actor"])
        return step, state["cursor"], state["consumed"]


def describe(rollouts: Sequence[Trajectory], groups: int, useful: int, version: int) -> dict[str, float]:
    """Metrics of the rollouts of one step. Rewards are means over known outcomes, shares over all rollouts."""
    known = [t.outcome.reward for t in rollouts if t.outcome.reward is not None]
    made = [[v for part in parts(t) for v in part.record.versions if v >= 0] for t in rollouts]
    ages = [version - min(versions) for versions in made if versions]
    n = max(1, len(rollouts))
    return {
        "reward/mean": float(np.mean(known)) if known else 0.0,
        "reward/frac_zero_std": 1 - useful / max(1, groups),
        "outcome/unknown_frac": 1 - len(known) / n,
        "response_tokens/mean": sum(t.action_tokens for t in rollouts) / n,
        "truncated_frac": sum(t.stop == "token_limit" for t in rollouts) / n,
        "staleness/mean": float(np.mean(ages)) if ages else 0.0,
        "staleness/max": float(max(ages, default=0)),
        "groups": float(groups),
    }


def split(rows: Sequence[Row], parts: int, seed: int) -> list[list[Row]]:
    """Cut rows into `parts` mini-batches by whole groups, groups in random order."""
    by_group: dict[int, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row)
    order = list(by_group)
    np.random.default_rng(seed).shuffle(order)
    cut = [order[i::parts] for i in range(min(parts, len(order)))]
    out = []
    for groups in cut:
        part = [row for group in groups for row in by_group[group]]
        numbers = {group: i for i, group in enumerate(groups)}
        for row in part:
            row.group = numbers[row.group]
        out.append(part)
    return out


def build_terms(phase: Optimised) -> dict[str, Loss]:
    """The loss terms that a phase names, with the phase's aggregation where the term doesn't say."""
    out: dict[str, Loss] = {}
    shared = {key: getattr(phase, key) for key in ("aggregate", "balance") if key in type(phase).model_fields}
    for name, table in phase.loss.items():  # type: ignore[attr-defined]
        module = registry.resolve("losses", name)
        out[name] = module.build(module.Config(**{**shared, **table.options}))
    return out


def schedule(phase: Optimised, step: int) -> float:
    """Factor of the learning rate at a step: linear warm-up, then constant or cosine to 0."""
    warm = min(1.0, (step + 1) / phase.warmup_steps) if phase.warmup_steps else 1.0
    if phase.schedule == "cosine":
        return warm * 0.5 * (1 + float(np.cos(np.pi * step / max(1, phase.steps))))
    return warm
