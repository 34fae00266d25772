"""Leave-one-out advantage: R minus the mean of the *other* known rewards of the prompt group (RLOO)."""

from __future__ import annotations

from collections.abc import Sequence

from noria.signals.base import Floats, SignalConfig, over_known

SLOT = "advantage"
SOURCE = "RLOO 2402.14740"


class Config(SignalConfig):
    """Nothing to choose."""


class Rloo:
    """Built advantage."""

    def __call__(self, rewards: Sequence[float | None]) -> Floats:
        """Rewards of one group [G] (None: unknown) -> advantages [G]; 0 if unknown, alone or all equal."""
        return over_known(rewards, _leave_one_out)


def _leave_one_out(values: Floats) -> Floats:
    n = len(values)
    out: Floats = (values - values.mean()) * (n / (n - 1))
    return out


def build(config: Config) -> Rloo:
    """The advantage for one recipe entry."""
    return Rloo()
