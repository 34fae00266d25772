"""Group-relative advantage (R - mean) / (std + eps) over the known rewards of a prompt group (GRPO)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from noria.signals.base import Floats, SignalConfig, over_known

SLOT = "advantage"
SOURCE = "GRPO 2402.03300, Claw agent"
#: An advantage is not in units of the reward.
RESCALES = True


class Config(SignalConfig):
    """Constants of the standardisation."""

    eps: float = Field(default=1e-6, ge=0, description="Added to the standard deviation (GRPO implementations: 1e-6).")
    ddof: Literal[0, 1] = Field(
        default=0,
        description="0: population std over the group (default); 1: sample std, as torch.std gives.",
    )


class GroupStd:
    """Built advantage."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, rewards: Sequence[float | None]) -> Floats:
        """Rewards of one group [G] (None: unknown) -> advantages [G]; 0 if unknown, alone or all equal."""
        return over_known(rewards, self._advantage)

    def _advantage(self, values: Floats) -> Floats:
        # numpy's std centres first: no E[x^2] - E[x]^2 residue that would blow nearly equal rewards up
        out: Floats = (values - values.mean()) / (values.std(ddof=self.config.ddof) + self.config.eps)
        return out


def build(config: Config) -> GroupStd:
    """The advantage for one recipe entry."""
    return GroupStd(config)
