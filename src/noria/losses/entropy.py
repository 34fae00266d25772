"""Entropy bonus: minimises -H(pi), so a positive coefficient keeps the policy broad (A3C, PPO)."""

from __future__ import annotations

from noria.losses.base import Batch, Denominators, Family, LossConfig, LossOutput, masked, reduce, share

SLOT = "loss"
SOURCE = "A3C 1602.01783, PPO 1707.06347"
FAMILY: Family = ""


class Config(LossConfig):
    """Only the aggregation can be chosen; the size of the bonus is the term's coefficient."""


class Entropy:
    """Built term: l = -H; reads `entropy` (with gradient)."""

    needs: tuple[str, ...] = ("entropy",)
    family: Family = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        entropy = masked(batch.need("entropy"), batch)
        total, denominator = reduce(-entropy, batch, denominators, self.config)
        return LossOutput(total, denominator, {"entropy": share(entropy, batch, denominators)})


def build(config: Config) -> Entropy:
    """Entropy bonus for one recipe entry."""
    return Entropy(config)
