"""Policy gradient with a clipped importance weight that carries no gradient: no token is ever dropped (CISPO)."""

from __future__ import annotations

from pydantic import Field

from noria.losses._surrogate import RatioConfig
from noria.losses.base import Batch, Denominators, Family, LossOutput, masked, reduce, share

SLOT = "loss"
SOURCE = "MiniMax-M1 2506.13585"
FAMILY: Family = "rl"
#: It speaks of sampled tokens only, so it may not train tokens that the policy did not sample as they stand.
ON_POLICY = True


class Config(RatioConfig):
    """Bounds of the weight sg[clip(rho, 1 - eps_low, 1 + eps_high)] in -weight * A * log pi."""

    eps_low: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Lower width; 1 = no lower bound, as CISPO has it (it tunes the upper only).",
    )
    eps_high: float = Field(
        default=4.0, gt=0, description="Upper width: the weight is at most 1 + this (CISPO states no number; 4: ours)."
    )


class Cispo:
    """Built term: l = -sg[clip(rho)] * A * log pi; reads no optional stream."""

    needs: tuple[str, ...] = ()
    family: Family = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        bound = self.config.log_ratio_bound
        advantage = masked(batch.advantage.detach(), batch)
        logp = masked(batch.logp, batch)
        ratio = (logp.detach() - masked(batch.logp_old.detach(), batch)).clamp(-bound, bound).exp()
        weight = ratio.clamp(1 - self.config.eps_low, 1 + self.config.eps_high)
        total, denominator = reduce(-weight * advantage * logp, batch, denominators, self.config)
        metrics = {
            "clip_frac": share((weight != ratio).to(ratio.dtype), batch, denominators),
            "ratio_mean": share(ratio, batch, denominators),
        }
        return LossOutput(total, denominator, metrics)


def build(config: Config) -> Cispo:
    """The term for one recipe entry."""
    return Cispo(config)
