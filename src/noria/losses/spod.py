"""Distillation that does not erode the student's own choices on episodes it solved; a floor holds them up (SPOD)."""

from __future__ import annotations

import math
from dataclasses import replace

from pydantic import Field

from noria.losses.base import Batch, Denominators, Family, LossOutput, masked, reduce, share
from noria.losses.k1_pg import Config as K1Config
from noria.losses.k1_pg import K1PolicyGradient

SLOT = "loss"
SOURCE = "SPOD (abstract only; the form of conflict and floor is our own)"
FAMILY: Family = "opd"
#: It speaks of sampled tokens only, so it may not train tokens that the policy did not sample as they stand.
ON_POLICY = True


class Config(K1Config):
    """k1_pg's constants; a token of a solved episode conflicts where log pi_T - log pi_old < -delta."""

    delta: float = Field(default=1.0, ge=0, description="How much less the teacher must like a token, nats (1: ours).")
    kappa: float = Field(default=1.0, gt=0, description="The floor is kappa * pi_old; 1 = where it was (1: ours).")
    floor: float = Field(default=1.0, ge=0, description="lambda, weight of the floor; 0 = conflicts are only skipped.")
    sharpness: float = Field(default=10.0, gt=0, description="beta of softplus(beta x) / beta, per nat (10: ours).")


class Spod:
    """Built term: k1_pg off the conflicts, lambda * softplus_beta(log(kappa * pi_old) - log pi) on them."""

    family: Family = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config
        self.plain = K1PolicyGradient(config)
        self.needs: tuple[str, ...] = (*self.plain.needs, "solved")

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        """Loss share of one micro-batch; raises as `k1_pg` does."""
        c = self.config
        old = masked(batch.logp_old.detach(), batch)
        dislike = masked(batch.need("logp_teacher").detach(), batch) - old
        conflict = masked((dislike < -c.delta).to(old.dtype) * batch.need("solved").detach().to(old.dtype), batch)
        # weight 0 on conflicts: they stay in every count, and bring no gradient
        plain = self.plain(replace(batch, weight=batch.weight * (1 - conflict)), denominators)
        gap = math.log(c.kappa) + old - masked(batch.logp, batch)
        # softplus by logaddexp: finite for any gap
        held = (c.sharpness * gap).logaddexp(gap.new_zeros(())) / c.sharpness
        total, denominator = reduce(c.floor * held * conflict, batch, denominators, c)
        metrics = plain.metrics | {"conflict_frac": share(conflict, batch, denominators)}
        return LossOutput(plain.total + total, denominator, metrics)


def build(config: Config) -> Spod:
    """The term for one recipe entry."""
    return Spod(config)
