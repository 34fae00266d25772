"""Clipped policy-gradient surrogate per token (PPO, GRPO, DAPO) or sequence (GSPO); dual clip optional."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from noria.losses.base import Batch, Denominators, LossConfig, LossOutput, masked, reduce, share

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"


class Config(LossConfig):
    """Constants of the surrogate -min(rho * A, clip(rho, 1 - eps_low, 1 + eps_high) * A)."""

    eps_low: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Lower clip width (PPO, GRPO and MOPD use 0.2; tool RL 0.20/0.28).",
    )
    eps_high: float = Field(
        default=0.2,
        gt=0,
        description="Upper clip width (0.2 in PPO, GRPO and MOPD; 0.28 is DAPO's clip-higher).",
    )
    dual_clip: float | None = Field(
        default=None,
        gt=1,
        description="For A < 0 bound the loss by this times |A| (10 in HMPO's launcher); off if unset.",
    )
    ratio: Literal["token", "sequence_mean", "sequence_sum"] = Field(
        default="token",
        description=(
            "token: pi/pi_old of each token. sequence_mean: exp of the mean log-ratio over the rollout "
            "(GSPO). sequence_sum: exp of the summed log-ratio (the exact sequence ratio)."
        ),
    )
    log_ratio_bound: float = Field(
        default=20.0,
        gt=0,
        description="Numerical guard: |log ratio| is cut here before exp (20: e^20 = 4.9e8).",
    )


class Clipped:
    """Built term; see `Config`. Reads no optional stream."""

    needs: tuple[str, ...] = ()

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        """Loss share of one micro-batch.

        Raises:
            ValueError: a sequence-level ratio and a rollout that is cut over micro-batches.
        """
        config = self.config
        advantage = masked(batch.advantage.detach(), batch)
        tokens = masked(batch.logp - batch.logp_old.detach(), batch)
        log_ratio = tokens if config.ratio == "token" else self._per_rollout(tokens, batch, denominators)
        ratio = log_ratio.clamp(-config.log_ratio_bound, config.log_ratio_bound).exp()
        above = (advantage > 0) & (ratio > 1 + config.eps_high)
        below = (advantage < 0) & (ratio < 1 - config.eps_low)
        bounded = ratio.where(~above, ratio.new_tensor(1 + config.eps_high))
        bounded = bounded.where(~below, ratio.new_tensor(1 - config.eps_low))
        clipped = above | below
        if config.dual_clip is not None:
            far = (advantage < 0) & (ratio > config.dual_clip)
            bounded = bounded.where(~far, ratio.new_tensor(config.dual_clip))
            clipped = clipped | far
        total, denominator = reduce(-bounded * advantage, batch, denominators, config)
        safe = tokens.detach().clamp(-config.log_ratio_bound, config.log_ratio_bound)
        metrics = {
            "clip_frac": share(clipped.to(ratio.dtype), batch, denominators),
            "ratio_mean": share(ratio, batch, denominators),
            "ratio_max": masked(ratio.detach(), batch).amax() if len(ratio) else ratio.new_zeros(()),
            "approx_kl": share(safe.exp() - 1 - safe, batch, denominators),
        }
        return LossOutput(total, denominator, metrics)

    def _per_rollout(self, tokens: Tensor, batch: Batch, denominators: Denominators) -> Tensor:
        """The rollout's log-ratio (mean or sum of those of its tokens), broadcast to its tokens."""
        segment = batch.index("segment")
        zeros = tokens.new_zeros(len(denominators.sequence_tokens))
        counts = zeros.index_add(0, segment, batch.mask.to(tokens.dtype))
        if bool(((counts > 0) & (counts != denominators.sequence_tokens.to(tokens))).any()):
            raise ValueError(
                "a sequence-level ratio needs every rollout whole in one micro-batch: do not cut rollouts"
            )
        sums = zeros.index_add(0, segment, tokens)
        if self.config.ratio == "sequence_mean":
            sums = sums / counts.clamp(min=1.0)
        return sums[segment]


def build(config: Config) -> Clipped:
    """The surrogate for one recipe entry."""
    return Clipped(config)
