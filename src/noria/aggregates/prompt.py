"""Mean over all tokens of a prompt's group, then over prompts: every prompt counts alike."""

from __future__ import annotations

from noria.aggregates.base import AggregateConfig, Denominators, Scale, Streams

SLOT = "aggregate"
SOURCE = "ScaleRL 2510.13786, prompt-level averaging"


class Config(AggregateConfig):
    """Nothing to set."""


class Prompt:
    """Built aggregate."""

    def scale(self, batch: Streams, counts: Denominators) -> Scale:
        tokens = counts.group_tokens.to(batch.logp.dtype).clamp(min=1.0)
        return Scale(1 / tokens[batch.index("group")], counts.route_prompts, counts.prompts)


def build(config: Config) -> Prompt:
    """The aggregate for one recipe entry."""
    return Prompt()
