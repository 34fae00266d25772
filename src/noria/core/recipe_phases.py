"""Training phases of a recipe. The signal says what kind of phase it is; all run over one training loop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from noria.core.recipe_tables import LossTable, Table


class Optimised(Table):
    """What every phase has: AdamW, its number of steps, the worlds it draws from."""

    steps: int = Field(default=20, ge=0, description="batches; 0 skips the phase")
    lr: float = Field(default=6e-4, gt=0, description="AdamW learning rate")
    schedule: Literal["constant", "cosine"] = Field(
        default="constant", description="of the learning rate over the steps"
    )
    warmup_steps: int = Field(default=0, ge=0, description="steps of linear warm-up from 0; 0 = none")
    betas: tuple[float, float] = Field(
        default=(0.9, 0.99), strict=False, description="AdamW decay rates of the moments"
    )
    grad_norm: float = Field(
        default=1.0, ge=0, description="gradient norm is clipped to this; 0 = not clipped"
    )
    weight_decay: float = Field(default=0.0, ge=0, description="AdamW decoupled weight decay")
    envs: list[str] | None = Field(default=None, description="worlds the phase trains on; None = all")
    split_by: Literal["env"] | None = Field(
        default=None, description="env = one expert per world; None = one model"
    )
    tokens_per_micro_batch: int = Field(
        default=4096,
        ge=1,
        description="tokens of a forward pass, padding included; changes memory and speed, not the gradient",
    )


class SftPhase(Optimised):
    """Supervised fine-tuning on the curated set and the teachers' trajectories."""

    signal: Literal["curated"]
    loss: dict[str, LossTable] = Field(default_factory=lambda: _loss(ce={}), description="loss terms by name")
    lr: float = Field(default=1e-3, gt=0, description="AdamW learning rate")
    steps: int = Field(default=60, ge=0, description="optimiser steps; 0 skips the phase")
    schedule: Literal["constant", "cosine"] = Field(
        default="cosine", description="of the learning rate over the steps"
    )
    tokens_per_step: int = Field(
        default=8192, ge=1, description="tokens of one optimiser step, packed, prompt included"
    )
    teacher_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="share of the samples that teachers wrote; the rest is the curated set",
    )
    mask_errors: bool = Field(default=True, description="erroneous steps stay as input and carry no loss")


class Credit(Table):
    """Weights of tokens inside a trajectory, renormalised to mean 1 over its action tokens."""

    key_action: float = Field(
        default=2.0, ge=1, description="weight of tokens of a key action; 1 = no credit"
    )


class Sampled(Optimised):
    """Phases that train on their own rollouts, actor and learner at the same time."""

    loss: dict[str, LossTable] = Field(
        default_factory=lambda: _loss(clipped={"aggregate": "prompt", "eps_high": 0.28}),
        description="loss terms by name",
    )
    prompts_per_step: int = Field(default=16, ge=1, description="prompts (groups) of one step")
    rollouts_per_prompt: int = Field(
        default=8, ge=1, description="rollouts of each prompt, the size of a group"
    )
    minibatches: int = Field(
        default=4, ge=1, description="optimiser steps per step: its rollouts are cut into so many parts"
    )
    max_staleness: int = Field(
        default=1,
        ge=0,
        description="policy versions between the oldest token of a rollout and training; 0 = on-policy",
    )
    temperature: float = Field(
        default=1.0, gt=0, description="sampling temperature, applied to all three policies"
    )
    tis_cap: float = Field(
        default=2.0, gt=0, description="cap C of the truncated importance weight min(pi_old/mu, C)"
    )
    max_refills: int = Field(
        default=1,
        ge=0,
        description="times a step's prompts are drawn again to replace groups without signal; 0 = never",
    )


class RlPhase(Sampled):
    """Group-relative policy gradient, one expert per world when `split_by = "env"`."""

    signal: Literal["group_std", "group_mean", "rloo"]
    sft_steps: int = Field(
        default=0, ge=0, description="supervised steps on the world's share before; 0 = none"
    )
    credit: Credit = Field(default_factory=Credit, description="token weights inside a trajectory")


class DistillPhase(Sampled):
    """On-policy distillation: the routed teacher scores the student's own tokens."""

    signal: Literal["teacher_k1"]
    loss: dict[str, LossTable] = Field(
        default_factory=lambda: _loss(clipped={"balance": "route"}), description="loss terms by name"
    )
    route: str = Field(
        description="an earlier phase with split_by (its experts), or a teacher that scores tokens"
    )
    lr: float = Field(default=1e-3, gt=0, description="AdamW learning rate")
    prompts_per_step: int = Field(default=48, ge=1, description="prompts of one step, worlds mixed 1:1")
    rollouts_per_prompt: int = Field(default=1, ge=1, description="rollouts of each prompt")
    minibatches: int = Field(default=2, ge=1, description="optimiser steps per step")
    adv_ref: Literal["current", "old"] = Field(
        default="current",
        description="policy subtracted in the advantage log pi_T - log pi; equal on the first mini-batch",
    )


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


def _loss(**terms: dict[str, Any]) -> dict[str, LossTable]:
    return {name: LossTable.model_validate(options) for name, options in terms.items()}


Phase = Annotated[SftPhase | RlPhase | DistillPhase | EfficiencyPhase, Field(discriminator="signal")]
