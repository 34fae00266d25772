"""Reward curriculum: dense progress until validation passes a threshold, then the outcome; a latch that stays."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from noria.signals.base import VALIDATED, Played, SignalConfig, met

SLOT = "reward"
SOURCE = "MOPD report, two-stage curriculum (threshold not stated)"
#: A phase has one such reward: a second one would read what this one paid.
READS_OUTCOMES = True


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
    measure: Literal["validation", "training"] = Field(
        default="validation",
        description="Where that share is measured: on held-out tasks, as the phase's `validation` says, or on the "
        "training rollouts themselves, which costs nothing and follows the mix of tasks.",
    )
    window: int = Field(
        default=64,
        ge=1,
        description="With measure = training: rollouts, each played before it was trained on, that the share is taken "
        "over (64: ours).",
    )


class TwoStage:
    """Built group reward. `latched` says whether the second stage has begun."""

    needs_reference, reads_outcomes = False, READS_OUTCOMES

    def __init__(self, config: Config) -> None:
        self.config = config
        self.needs_validation = config.measure == "validation"
        self.latched = False
        self.recent: deque[float] = deque(maxlen=config.window)

    def shape(self, rewards: Sequence[float | None], group: Sequence[Played]) -> list[float | None]:
        """The group that crosses the threshold in training is still paid by the first stage."""
        latched = self.latched
        if not self.needs_validation:
            self._count(rewards)
        if latched:
            return list(rewards)
        return [
            None if reward is None else self.progress(reward, played.parts)
            for reward, played in zip(rewards, group, strict=True)
        ]

    def observe(self, facts: Mapping[str, float]) -> None:
        """A validation flips the latch, before the step that follows it."""
        if self.needs_validation and VALIDATED in facts:
            self.latched |= facts[VALIDATED] >= self.config.threshold

    def _count(self, rewards: Sequence[float | None]) -> None:
        self.recent.extend(float(reward >= 1.0) for reward in rewards if reward is not None)
        full = len(self.recent) == self.config.window
        self.latched |= full and sum(self.recent) >= self.config.threshold * self.config.window

    def progress(self, reward: float, parts: Mapping[str, float]) -> float:
        """Mean of the measures, or the reward where the verifier gave none of them."""
        return met(reward, parts, self.config.parts)

    def state(self) -> dict[str, Any]:
        return {"latched": self.latched, "recent": list(self.recent)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.latched = bool(state["latched"])
        self.recent = deque(state["recent"], maxlen=self.config.window)


def build(config: Config) -> TwoStage:
    """The group reward for one recipe entry."""
    return TwoStage(config)
