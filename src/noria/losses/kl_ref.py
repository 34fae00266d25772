"""KL(pi || pi_ref) to a frozen reference as a loss, by estimators with the gradient of the KL (k2, iw_k3)."""

from __future__ import annotations

from noria.losses._estimators import EstimatorConfig, estimate
from noria.losses.base import Batch, Denominators, Family, LossOutput

SLOT = "loss"
SOURCE = "InstructGPT 2203.02155; estimators: Schulman, Approximating KL divergence"
FAMILY: Family = ""


class Config(EstimatorConfig):
    """Which estimator of the KL; those with another expected gradient are refused."""


class ReferenceKl:
    """Built term; reads `logp_ref`."""

    needs: tuple[str, ...] = ("logp_ref",)
    family: Family = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        return estimate(batch.need("logp_ref"), batch, denominators, self.config)


def build(config: Config) -> ReferenceKl:
    """Reference KL for one recipe entry."""
    return ReferenceKl(config)
