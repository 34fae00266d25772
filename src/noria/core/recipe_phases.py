"""Training phases of a recipe. The signal says what kind of phase it is; all run over one training loop."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from noria.core import named
from noria.core.phase_checks import (
    KINDS,
    check_advantage,
    check_auxiliary,
    check_losses,
    check_source,
    check_use,
    is_advantage,
)
from noria.core.recipe_tables import LossTable, OpenTable, Table, make_config

#: The advantage where nothing else is said.
ADVANTAGE = "group_mean"

#: A decay rate of AdamW.
Beta = Annotated[float, Field(ge=0, lt=1)]


class Optimised(Table):
    """What every phase has: AdamW, its number of steps, the worlds it draws from."""

    steps: int = Field(default=20, ge=0, description="batches; 0 skips the phase")
    lr: float = Field(default=6e-4, gt=0, description="AdamW learning rate")
    schedule: Literal["constant", "cosine"] = Field(
        default="constant", description="of the learning rate over the steps"
    )
    warmup_steps: int = Field(default=0, ge=0, description="steps of linear warm-up from 0; 0 = none")
    betas: tuple[Beta, Beta] = Field(default=(0.9, 0.99), strict=False, description="AdamW decay rates of the moments")
    grad_norm: float = Field(default=1.0, ge=0, description="gradient norm is clipped to this; 0 = not clipped")
    weight_decay: float = Field(default=0.0, ge=0, description="AdamW decoupled weight decay")
    envs: list[str] | None = Field(default=None, description="worlds the phase trains on; None = all")
    split_by: Literal["env"] | None = Field(default=None, description="env = one expert per world; None = one model")
    tokens_per_micro_batch: int = Field(
        default=4096,
        ge=1,
        le=10**9,
        description="tokens of a forward pass, padding included; changes memory and speed, not the gradient",
    )


class SignalTable(OpenTable):
    """One further signal of a phase, by name; every key besides `type` belongs to the signal."""

    type: str | None = Field(default=None, description="module of signals/; None = the table's own name")

    @property
    def options(self) -> dict[str, Any]:
        """The keys besides `type`."""
        return dict(self.model_extra or {})

    def module(self, name: str) -> str:
        """The module that the table `name` stands for."""
        return self.type or name

    def config(self, name: str) -> Any:
        """The signal's own `Config`, built from this table."""
        return make_config("signals", self.module(name), self.options)


class Difficulty(Table):
    """Which tasks a phase keeps: those that its first model solves sometimes."""

    rollouts: int = Field(default=8, ge=2, description="rollouts of each task; pass_rate is their mean, not pass@k")
    low: float = Field(default=0.1, ge=0, le=1, description="least pass_rate that is kept")
    high: float = Field(default=0.9, ge=0, le=1, description="greatest pass_rate that is kept")

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low must be <= high: got {self.low} and {self.high} - exchange them")
        return self


class Validation(Table):
    """How a phase measures its policy while it goes on: on held-out tasks that the gate does not use."""

    every: int = Field(default=10, ge=1, description="steps from one to the next; the first is before the first step")
    tasks: int = Field(default=32, ge=1, description="held-out tasks of each world, none of them the gate's")
    rollouts: int = Field(
        default=1, ge=1, description="rollouts of each task, at the phase's temperature and limited as its rollouts are"
    )


class Enrich(Table):
    """A share of a supervised phase's trajectories, written anew beside them and proved by replay."""

    share: float = Field(default=0.3, gt=0, le=1, description="share of the trajectories")
    schemas: bool = Field(default=True, description="tools under other names and shapes")
    plan: bool = Field(default=True, description="the first reasoning becomes a plan")
    refine: bool = Field(default=True, description="empty, copied and contradictory reasoning is written anew")


#: Rules of error masking (`stages.masking`).
ErrorRule = Literal[
    "refused", "malformed", "redone", "misrun", "repeated", "broken_syntax", "reverted", "corrected", "worsened",
    "idle", "unready",
]  # fmt: skip


class SftPhase(Optimised):
    """Supervised fine-tuning on the curated set and the teachers' trajectories."""

    signal: Literal["curated"]
    loss: dict[str, LossTable] = Field(default_factory=lambda: _loss(ce={}), description="loss terms by name")
    lr: float = Field(default=1e-3, gt=0, description="AdamW learning rate")
    steps: int = Field(default=60, ge=0, description="optimiser steps; 0 skips the phase")
    schedule: Literal["constant", "cosine"] = Field(default="cosine", description="of the learning rate over the steps")
    tokens_per_step: int = Field(
        default=8192, ge=1, le=10**9, description="tokens of one optimiser step, packed, prompt included"
    )
    teacher_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="share of the samples that teachers wrote; the rest is the curated set",
    )
    mask_errors: bool = Field(default=True, description="erroneous steps stay as input and carry no loss")
    error_rules: list[ErrorRule] = Field(
        default=["refused"], description="rules that say which steps are erroneous; `noria masks` measures them"
    )
    enrich: Enrich | None = Field(default=None, description="what is enriched on the way; None = nothing")
    data: list[str] = Field(
        default=[],
        description="files of JSON lines that are trained on too: messages, prompt and completion, trajectories",
    )


class Credit(Table):
    """Weights of tokens inside a trajectory, renormalised to mean 1 over its action tokens."""

    key_action: float = Field(default=2.0, ge=1, description="weight of tokens of a key action; 1 = no credit")


class Sampled(Optimised):
    """Phases that train on their own rollouts, actor and learner at the same time."""

    loss: dict[str, LossTable] = Field(
        default_factory=lambda: _loss(clipped={"aggregate": "prompt", "eps_high": 0.28}),
        description="loss terms by name",
    )
    prompts_per_step: int = Field(default=16, ge=1, description="prompts (groups) of one step")
    rollouts_per_prompt: int = Field(default=8, ge=1, description="rollouts of each prompt, the size of a group")
    minibatches: int = Field(
        default=4, ge=1, description="optimiser steps per step: its rollouts are cut into so many parts"
    )
    max_staleness: int = Field(
        default=1,
        ge=0,
        description="policy versions between the oldest token of a rollout and training; 0 = on-policy",
    )
    temperature: float = Field(default=1.0, gt=0, description="sampling temperature, applied to all three policies")
    tis_cap: float = Field(
        default=2.0, ge=0, description="cap C of the truncated importance weight min(pi_old/mu, C); 0 = no such weight"
    )
    max_refills: int = Field(
        default=1,
        ge=0,
        description="times a step's prompts are drawn again to replace groups without signal; 0 = never",
    )
    max_response: int = Field(
        default=0,
        ge=0,
        le=10**9,
        description="tokens that a rollout may generate in all, where it ends as at any token limit: no failure where "
        "no reward is read; 0 = the limits of [rollout] alone",
    )
    max_logp_diff: float = Field(
        default=0.0,
        ge=0,
        description="mean distance of log pi_old and log mu in nats above which the phase stops: engine and trainer "
        "disagree; 0 = no bound",
    )
    actors: int | None = Field(
        default=None,
        ge=1,
        description="workers that sample while the phase trains, groups dealt in turn; None = all of the executor but "
        "one, whose core the learner takes, and at least one",
    )
    use: dict[str, SignalTable] = Field(
        default_factory=dict, description="further signals by name: token weights, rewards, controllers and the like"
    )
    difficulty: Difficulty | None = Field(
        default=None, description="drop tasks that the first model of the phase always or never solves; None = keep all"
    )
    task_source: named.Named = Field(
        default="turns",
        description="which task a group plays: one of `noria list sources`, or a table of its type and its options",
    )
    validation: Validation | None = Field(
        default=None,
        description="measure the policy on held-out tasks now and then; None = only where a signal needs it, then with "
        "the table's defaults",
    )

    @field_validator("task_source")
    @classmethod
    def _source_is_there(cls, value: named.Named) -> named.Named:
        return named.checked("task_source", "sources", value)

    @model_validator(mode="after")
    def _signals_fit(self) -> Self:
        check_source(self)
        check_use(self)
        check_losses(self)
        return self


class RlPhase(Sampled):
    """Group-relative policy gradient, one expert per world when `split_by = "env"`. `signal` names the advantage: a
    file of signals/ or a dotted module of the slot "advantage"."""

    signal: str
    advantage: SignalTable = Field(
        default_factory=SignalTable, description="options of the advantage that `signal` names, as { ddof = 1 }"
    )
    sft_steps: int = Field(default=0, ge=0, description="supervised steps on the world's share before; 0 = none")
    credit: Credit = Field(default_factory=Credit, description="token weights inside a trajectory")

    @model_validator(mode="after")
    def _has_one_advantage(self) -> Self:
        check_advantage("signal", self.signal)
        if self.advantage.type not in (None, self.signal):
            raise ValueError(
                f"advantage.type must be left out, signal names the advantage: got {self.advantage.type!r} - set "
                f'signal = "{self.advantage.type}"'
            )
        return self


class Auxiliary(Table):
    """A second policy that is trained beside the student; it never samples and is not deployed (WDL-OPD 2608.09447)."""

    model: str = Field(
        description="what it starts from: weak (the round's weak model), builtin:tiny, or a folder of a checkpoint"
    )
    lr: float | None = Field(
        default=None, ge=0, description="AdamW learning rate, on the phase's schedule; None = the phase's, 0 = frozen"
    )


class Distilled(Sampled):
    """What every phase with teachers has: the student's own rollouts, and who scores them."""

    route: str | dict[str, str] = Field(
        description="an earlier phase with split_by (its experts), or a teacher that scores tokens, for all worlds; "
        "or a table of world = teacher, further keys of which are routes that tasks name"
    )
    lr: float = Field(default=1e-3, gt=0, description="AdamW learning rate")
    prompts_per_step: int = Field(default=48, ge=1, description="prompts of one step, worlds mixed 1:1")
    rollouts_per_prompt: int = Field(default=1, ge=1, description="rollouts of each prompt")
    minibatches: int = Field(default=2, ge=1, description="optimiser steps per step")
    teacher_weights: dict[str, float] = Field(
        default_factory=dict,
        description="weights of the teachers (or worlds of the experts) that all score every sample, made to sum to 1; "
        "empty = each sample has the one of its world",
    )
    teacher_temperature: float = Field(
        default=1.0, gt=0, description="temperature at which teachers score; a teacher on a server scores at 1"
    )
    overlap_every: int = Field(
        default=0, ge=0, description="steps between measures of the overlap of both top-16 sets; 0 = never"
    )
    auxiliary: Auxiliary | None = Field(
        default=None, description="a second policy that is trained too, for losses that mix both; None = none"
    )

    @model_validator(mode="after")
    def _second_policy_is_meant(self) -> Self:
        check_auxiliary(self)
        return self


class DistillPhase(Distilled):
    """On-policy distillation: the routed teacher scores the student's own tokens."""

    signal: Literal["teacher_k1"]
    loss: dict[str, LossTable] = Field(
        default_factory=lambda: _loss(clipped={"balance": "route"}), description="loss terms by name"
    )
    adv_ref: Literal["current", "old"] = Field(
        default="current",
        description="policy subtracted in the advantage log pi_T - log pi; equal on the first mini-batch",
    )


class TeacherPhase(Distilled):
    """Distillation by whichever loss terms the phase names; each reads the teacher itself."""

    signal: Literal["teacher"]
    loss: dict[str, LossTable] = Field(
        default_factory=lambda: _loss(k1_pg={"balance": "route"}), description="loss terms by name"
    )


class JointPhase(Distilled):
    """Reinforcement and distillation on the same rollouts: alpha * L_OPD + beta * L_RL; 0 switches a part off."""

    signal: Literal["joint"]
    loss: dict[str, LossTable] = Field(
        default_factory=lambda: _loss(clipped={"aggregate": "prompt", "eps_high": 0.28}, k1_pg={"balance": "route"}),
        description="loss terms by name",
    )
    advantage: SignalTable = Field(
        default_factory=lambda: SignalTable(type=ADVANTAGE),
        description="advantage of the reinforcement terms: its name, or a table of its type and its options",
    )
    alpha: float = Field(default=1.0, ge=0, description="factor of every distillation term; 0 = mode rl")
    beta: float = Field(default=1.0, ge=0, description="factor of every reinforcement term; 0 = mode opd")
    rollouts_per_prompt: int = Field(default=8, ge=2, description="rollouts of each prompt, the size of a group")
    prompts_per_step: int = Field(default=16, ge=1, description="prompts (groups) of one step, worlds mixed 1:1")
    credit: Credit = Field(default_factory=Credit, description="token weights inside a trajectory")

    @field_validator("advantage", mode="before")
    @classmethod
    def _may_be_a_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"type": value}
        return {"type": ADVANTAGE, **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _has_an_advantage(self) -> Self:
        check_advantage("advantage", self.advantage.module(ADVANTAGE))
        return self


class EfficiencyPhase(Sampled):
    """Token efficiency: among correct rollouts the shorter are rewarded (HMPO)."""

    signal: Literal["hmpo"]
    loss: dict[str, LossTable] = Field(
        default_factory=lambda: _loss(clipped={"eps_high": 0.28, "dual_clip": 10.0}),
        description="loss terms by name",
    )
    rollouts_per_prompt: int = Field(default=10, ge=2, description="rollouts of each prompt, G")
    boundary: Literal["inclusive", "strict"] = Field(
        default="inclusive",
        description="strict: a rollout of median length gets 0; inclusive: it gets `offset`",
    )
    offset: float = Field(default=0.8, ge=0, le=1, description="lambda of min(1, cos(pi n / 2b) + lambda)")
    lr: float = Field(default=3e-4, gt=0, description="AdamW learning rate")
    minibatches: int = Field(default=4, ge=1, description="optimiser steps per step")


def advantage_of(phase: RlPhase | JointPhase) -> str:
    """The module of the advantage that a phase compares its groups with."""
    return phase.advantage.module(ADVANTAGE) if isinstance(phase, JointPhase) else phase.signal


def _loss(**terms: dict[str, Any]) -> dict[str, LossTable]:
    return {name: LossTable.model_validate(options) for name, options in terms.items()}


def _kind(table: Any) -> Any:
    """The tag of a phase's table: its signal, "rl" where that names an advantage."""
    signal = table.get("signal") if isinstance(table, dict) else getattr(table, "signal", None)
    return "rl" if isinstance(signal, str) and signal not in KINDS and is_advantage(signal) else signal


Phase = Annotated[
    Annotated[SftPhase, Tag("curated")]
    | Annotated[RlPhase, Tag("rl")]
    | Annotated[DistillPhase, Tag("teacher_k1")]
    | Annotated[TeacherPhase, Tag("teacher")]
    | Annotated[JointPhase, Tag("joint")]
    | Annotated[EfficiencyPhase, Tag("hmpo")],
    Discriminator(_kind),
]
