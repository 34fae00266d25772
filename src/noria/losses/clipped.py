"""Clipped policy-gradient surrogate per token (PPO, GRPO, DAPO) or sequence (GSPO); dual clip optional."""

from __future__ import annotations

from noria.losses._surrogate import SurrogateConfig, surrogate
from noria.losses.base import Batch, Denominators, Family, LossOutput, masked

SLOT = "loss"
SOURCE = "PPO 1707.06347, GRPO 2402.03300, DAPO 2503.14476, GSPO 2507.18071, dual clip 1912.09729"
FAMILY: Family = "rl"
#: It speaks of sampled tokens only, so it may not train tokens that the policy did not sample as they stand.
ON_POLICY = True


class Config(SurrogateConfig):
    """Constants of the surrogate -min(rho * A, clip(rho, 1 - eps_low, 1 + eps_high) * A)."""


class Clipped:
    """Built term; see `Config`. Reads no optional stream."""

    needs: tuple[str, ...] = ()
    family: Family = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        """Loss share of one micro-batch.

        Raises:
            ValueError: a sequence-level ratio and a rollout that does not lie whole in the micro-batch.
        """
        return surrogate(batch, denominators, self.config, masked(batch.advantage.detach(), batch))


def build(config: Config) -> Clipped:
    """The surrogate for one recipe entry."""
    return Clipped(config)
