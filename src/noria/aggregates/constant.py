"""Sum over the tokens of a rollout by one constant, then mean over rollouts: no length enters."""

from __future__ import annotations

from pydantic import Field

from noria.aggregates.base import AggregateConfig, Denominators, Scale, Streams

SLOT = "aggregate"
SOURCE = "Dr.GRPO 2503.20783"


class Config(AggregateConfig):
    """The constant."""

    constant_tokens: int = Field(gt=0, description="Divisor in tokens: usually max_tokens (Dr.GRPO).", examples=[32])


class Constant:
    """Built aggregate."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def scale(self, batch: Streams, counts: Denominators) -> Scale:
        each = batch.logp.new_full(batch.logp.shape, 1 / self.config.constant_tokens)
        return Scale(each, counts.route_sequences, counts.sequences)


def build(config: Config) -> Constant:
    """The aggregate for one recipe entry."""
    return Constant(config)
