"""Dynamic sampling: groups that teach nothing are dropped and replaced by further ones, up to a cap (DAPO)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from noria.signals.base import Selection, SignalConfig

SLOT = "transform"
SOURCE = "DAPO 2503.14476"


class Config(SignalConfig):
    """How long to look for groups with signal; a phase gives its own `max_refills`."""

    max_refills: int = Field(
        ge=0,
        description="Times a full batch of groups may be drawn again before the step trains on what there is.",
        examples=[2],
    )


class Dynamic:
    """Built group transform; runs after the *final* reward."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, teaches: Sequence[bool], wanted: int) -> Selection:
        """Choose among the groups sampled so far for a step, in the order of their admission.

        `teaches` says of each whether it has signal; `wanted` of those make a full batch. At most
        `(1 + max_refills) * wanted` groups are sampled for one step.
        """
        kept = tuple(i for i, useful in enumerate(teaches) if useful)
        dropped = tuple(i for i, useful in enumerate(teaches) if not useful)
        missing = max(0, wanted - len(kept))
        left = max(0, (1 + self.config.max_refills) * wanted - len(teaches))
        return Selection(kept, dropped, min(missing, left), self.config.max_refills > 0 and missing > 0 and not left)


def build(config: Config) -> Dynamic:
    """The group transform for one recipe entry."""
    return Dynamic(config)
