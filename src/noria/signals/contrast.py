"""Pairwise contrast: a rollout earns the share of its group that it beats, measure by measure, the gravest first."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from noria.signals.base import Played, SignalConfig

SLOT = "reward"
SOURCE = "Mach-Mind report, behaviour safety: pairwise contrast of trajectories (form and constants: ours)"


class Config(SignalConfig):
    """Which measures count, in which order, and how much."""

    parts: tuple[str, ...] = Field(
        min_length=1,
        strict=False,
        description="Measures of the verifier from the gravest to the least; one that a rollout lacks counts as 0.",
        examples=[["risk", "authorised", "honest"]],
    )
    share: float = Field(
        default=1.0, gt=0, le=1, description="Weight of the contrast; the rest is the reward so far (1: ours)."
    )


class Contrast:
    """Two rollouts are compared on the named measures of the verifier in their order; the first on which they differ
    decides, so that no later one makes up for it. Where none differs, the rewards do; equal rollouts share the point.
    """

    needs_reference = False

    def __init__(self, config: Config) -> None:
        self.config = config

    def shape(self, rewards: Sequence[float | None], group: Sequence[Played]) -> list[float | None]:
        """Shares of the known others that each known rollout beats; a lone one keeps its reward."""
        keys = [
            None if reward is None else (*(played.parts.get(name, 0.0) for name in self.config.parts), reward)
            for reward, played in zip(rewards, group, strict=True)
        ]
        known = [key for key in keys if key is not None]
        out: list[float | None] = []
        for reward, key in zip(rewards, keys, strict=True):
            if reward is None or key is None or len(known) < 2:
                out.append(reward)
                continue
            beaten = sum(other < key for other in known) + 0.5 * (sum(other == key for other in known) - 1)
            out.append(self.config.share * beaten / (len(known) - 1) + (1 - self.config.share) * reward)
        return out


def build(config: Config) -> Contrast:
    """The group reward for one recipe entry."""
    return Contrast(config)
