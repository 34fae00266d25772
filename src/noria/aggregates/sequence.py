"""Mean over the tokens of each rollout, then over rollouts: every rollout counts alike."""

from __future__ import annotations

from noria.aggregates.base import AggregateConfig, Denominators, Scale, Streams

SLOT = "aggregate"
SOURCE = "GRPO 2402.03300; GSPO 2507.18071"


class Config(AggregateConfig):
    """Nothing to set."""


class Sequence:
    """Built aggregate."""

    def scale(self, batch: Streams, counts: Denominators) -> Scale:
        tokens = counts.rollout_tokens.to(batch.logp.dtype).clamp(min=1.0)
        return Scale(1 / tokens[batch.index("segment")], counts.route_sequences, counts.sequences)


def build(config: Config) -> Sequence:
    """The aggregate for one recipe entry."""
    return Sequence()
