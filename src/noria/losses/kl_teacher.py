"""KL(pi || pi_T) on sampled tokens as a loss: k2, or importance-weighted k3 (exact off-policy)."""

from __future__ import annotations

from noria.losses._estimators import EstimatorConfig, estimate
from noria.losses.base import Batch, Denominators, Family, LossOutput

SLOT = "loss"
SOURCE = "Skill-SD 2604.10674 (importance-weighted k3); estimators: Schulman, Approximating KL divergence"
FAMILY: Family = "opd"
#: It speaks of sampled tokens only, so it may not train tokens that the policy did not sample as they stand.
ON_POLICY = True


class Config(EstimatorConfig):
    """Which estimator of the KL; those with another expected gradient are refused."""


class TeacherKl:
    """Built term; reads `logp_teacher`."""

    needs: tuple[str, ...] = ("logp_teacher",)
    family: Family = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        return estimate(batch.need("logp_teacher"), batch, denominators, self.config)


def build(config: Config) -> TeacherKl:
    """Teacher KL for one recipe entry."""
    return TeacherKl(config)
