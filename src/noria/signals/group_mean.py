"""Group-relative advantage R - mean over the known rewards of a prompt group, without the std (Dr.GRPO)."""

from __future__ import annotations

from collections.abc import Sequence

from noria.signals.base import Floats, SignalConfig, over_known

SLOT = "advantage"
SOURCE = "Dr.GRPO 2503.20783"


class Config(SignalConfig):
    """Nothing to choose."""


class GroupMean:
    """Built advantage."""

    def __call__(self, rewards: Sequence[float | None]) -> Floats:
        """Rewards of one group [G] (None: unknown) -> advantages [G]; 0 if unknown, alone or all equal."""
        return over_known(rewards, lambda values: values - values.mean())


def build(config: Config) -> GroupMean:
    """The advantage for one recipe entry."""
    return GroupMean()
