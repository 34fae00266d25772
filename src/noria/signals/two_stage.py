"""Reward curriculum: dense progress until enough is solved, then the outcome alone; a latch that never goes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from noria.signals.base import Played, SignalConfig

SLOT = "reward"
SOURCE = "MOPD report, two-stage curriculum (threshold not stated)"


class Config(SignalConfig):
    """When the second stage begins."""

    parts: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="The verifier's measures whose mean is the progress; [] = all that it gave.",
    )
    threshold: float = Field(
        default=0.5, gt=0, le=1, description="Share solved from which on the outcome alone counts (0.5: ours)."
    )
    window: int = Field(
        default=64,
        ge=1,
        description="Rollouts, each played before it was trained on, that the share is taken over (64: ours).",
    )


class TwoStage:
    """Built group reward. `latched` says whether the second stage has begun."""

    needs_reference = False

    def __init__(self, config: Config) -> None:
        self.config = config
        self.latched = False
        self.recent: deque[float] = deque(maxlen=config.window)

    def shape(self, rewards: Sequence[float | None], group: Sequence[Played]) -> list[float | None]:
        """The group that crosses the threshold is still paid by the first stage."""
        latched = self.latched
        self.recent.extend(float(reward >= 1.0) for reward in rewards if reward is not None)
        full = len(self.recent) == self.config.window
        self.latched |= full and sum(self.recent) >= self.config.threshold * self.config.window
        if latched:
            return list(rewards)
        return [
            None if reward is None else self.progress(reward, played.parts)
            for reward, played in zip(rewards, group, strict=True)
        ]

    def progress(self, reward: float, parts: Mapping[str, float]) -> float:
        """Mean of the measures, or the reward where the verifier gave none of them."""
        found = [value for name, value in parts.items() if name in self.config.parts or not self.config.parts]
        return sum(found) / len(found) if found else reward

    def state(self) -> dict[str, Any]:
        return {"latched": self.latched, "recent": list(self.recent)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.latched = bool(state["latched"])
        self.recent = deque(state["recent"], maxlen=self.config.window)


def build(config: Config) -> TwoStage:
    """The group reward for one recipe entry."""
    return TwoStage(config)
