"""What the policy-gradient terms share: the bounded ratio, one surrogate, and sums along a rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from noria.losses.base import Batch, Denominators, LossConfig, LossOutput, masked, reduce, share

if TYPE_CHECKING:
    from torch import Tensor


class RatioConfig(LossConfig):
    """Constants of a clipped ratio."""

    eps_low: float = Field(
        default=0.2, gt=0, lt=1, description="Lower clip width (PPO, GRPO and MOPD use 0.2; tool RL 0.20/0.28)."
    )
    eps_high: float = Field(
        default=0.2, gt=0, description="Upper clip width (0.2 in PPO, GRPO and MOPD; 0.28 is DAPO's clip-higher)."
    )
    log_ratio_bound: float = Field(
        default=20.0, gt=0, description="Numerical guard: |log ratio| is cut here before exp (20: e^20 = 4.9e8)."
    )


class SurrogateConfig(RatioConfig):
    """Constants of the surrogate -min(rho * A, clip(rho, 1 - eps_low, 1 + eps_high) * A)."""

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


def surrogate(batch: Batch, denominators: Denominators, config: SurrogateConfig, advantage: Tensor) -> LossOutput:
    """The clipped surrogate for an advantage [T] without gradient.

    Raises:
        ValueError: a sequence-level ratio and a rollout that does not lie whole in the micro-batch.
    """
    tokens = masked(batch.logp - batch.logp_old.detach(), batch)
    log_ratio = tokens if config.ratio == "token" else per_rollout(tokens, batch, denominators, config.ratio)
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


def per_rollout(tokens: Tensor, batch: Batch, denominators: Denominators, how: str) -> Tensor:
    """The rollout's log-ratio (mean or sum of those of its tokens), broadcast to its tokens."""
    segment = batch.index("segment")
    counts = whole(batch, denominators, "a sequence-level ratio")
    sums = tokens.new_zeros(len(counts)).index_add(0, segment, tokens)
    if how == "sequence_mean":
        sums = sums / counts.to(sums.dtype).clamp(min=1.0)
    return sums[segment]


def whole(batch: Batch, denominators: Denominators, who: str) -> Tensor:
    """Trained tokens of each rollout [S] in this micro-batch: 0, or all that it has.

    Raises:
        ValueError: a rollout is cut; `who` needs it whole.
    """
    zeros = batch.logp.detach().new_zeros(len(denominators.sequence_tokens))
    counts = zeros.index_add(0, batch.index("segment"), batch.mask.to(zeros.dtype))
    if bool(((counts > 0) & (counts != denominators.sequence_tokens.to(zeros))).any()):
        raise ValueError(f"{who} needs every rollout whole in one micro-batch: do not cut rollouts")
    return counts


def discounted(values: Tensor, batch: Batch, denominators: Denominators, gamma: float) -> Tensor:
    """Σ_{s >= t} gamma^{rank(s) - rank(t)} values_s over the trained tokens of each rollout, [T] without gradient.

    The rank counts trained tokens only: an observation between two actions costs no discount.

    Raises:
        ValueError: gamma > 0 and a rollout that does not lie whole in the micro-batch.
    """
    if gamma == 0:
        return values
    whole(batch, denominators, "kl_discount")
    out = values.detach().clone()
    position, segment = batch.need("position"), batch.index("segment")
    kept = batch.mask.bool().nonzero().squeeze(1)
    order = kept[(segment[kept] * (int(position.max()) + 1) + position[kept]).argsort(descending=True)]
    carried, before, sums = 0.0, -1, []
    for rollout, value in zip(segment[order].tolist(), out[order].tolist(), strict=True):
        carried = value + (gamma * carried if rollout == before else 0.0)
        before = rollout
        sums.append(carried)
    out[order] = out.new_tensor(sums)
    return out
