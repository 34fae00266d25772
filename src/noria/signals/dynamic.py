"""Dynamic sampling: drop groups whose final rewards are all equal, refill the batch up to a cap (DAPO)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from noria.signals.base import SignalConfig, flat, known

SLOT = "transform"
SOURCE = "DAPO 2503.14476"


class Config(SignalConfig):
    """How long to look for groups with signal."""

    max_refills: int = Field(
        default=2,
        ge=0,
        description="Refills before the step trains on what there is (DAPO has no bound; 2: our choice).",
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """Indices of the groups kept and dropped; `capped`: the batch stays short, the cap was reached."""

    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    refill: int
    capped: bool


class Dynamic:
    """Built group transform; runs after the *final* reward."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, groups: Sequence[Sequence[float | None]], wanted: int, refills: int) -> Selection:
        """Choose among the groups sampled so far for a step.

        `wanted` groups make a full batch, `refills` is how often it was refilled already. `refill` of the
        result is the number of further groups to sample: 0 when the batch is full or the cap is reached.
        """
        kept = tuple(i for i, rewards in enumerate(groups) if not flat(known(rewards)[1]))
        dropped = tuple(i for i in range(len(groups)) if i not in set(kept))
        missing = max(0, wanted - len(kept))
        capped = missing > 0 and refills >= self.config.max_refills
        return Selection(kept, dropped, 0 if capped else missing, capped)


def build(config: Config) -> Dynamic:
    """The group transform for one recipe entry."""
    return Dynamic(config)
