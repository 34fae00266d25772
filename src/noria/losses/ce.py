"""Cross entropy -log pi on the masked tokens: supervised fine-tuning, behaviour cloning, retention."""

from __future__ import annotations

from noria.losses.base import Batch, Denominators, Family, LossConfig, LossOutput, masked, reduce, share

SLOT = "loss"
SOURCE = "maximum likelihood; MOPD uses it for supervised fine-tuning"
FAMILY: Family = ""


class Config(LossConfig):
    """Only the aggregation can be chosen."""


class CrossEntropy:
    """Built term: l = -log pi; reads no optional stream, neither advantages nor old policies."""

    needs: tuple[str, ...] = ()
    family: Family = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        per_token = -masked(batch.logp, batch)
        total, denominator = reduce(per_token, batch, denominators, self.config)
        return LossOutput(total, denominator, {"nll": share(per_token, batch, denominators)})


def build(config: Config) -> CrossEntropy:
    """Cross entropy for one recipe entry."""
    return CrossEntropy(config)
