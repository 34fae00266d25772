"""Mean over all action tokens of the batch: every token counts alike, long rollouts count more."""

from __future__ import annotations

from noria.aggregates.base import AggregateConfig, Denominators, Scale, Streams

SLOT = "aggregate"
SOURCE = "DAPO 2503.14476, token-level loss"


class Config(AggregateConfig):
    """Nothing to set."""


class Token:
    """Built aggregate."""

    def scale(self, batch: Streams, counts: Denominators) -> Scale:
        return Scale(batch.logp.new_ones(batch.logp.shape), counts.route_tokens, counts.action_tokens)


def build(config: Config) -> Token:
    """The aggregate for one recipe entry."""
    return Token()
