"""Drops a coefficient to its floor once a metric passes a bound, and never lifts it again (TT-OPD's phase-out)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from noria.signals.base import SignalConfig

SLOT = "controller"
SOURCE = "TT-OPD 2605.02943, monotone phase-out of distillation"


class Config(SignalConfig):
    """Which metric, which bound."""

    target: str = Field(description="alpha, beta, or a loss term of the phase.", examples=["alpha"])
    metric: str = Field(
        description="Metric of a step as in metrics.jsonl, for example distill/k1/ledger or entropy.",
        examples=["entropy"],
    )
    above: float | None = Field(default=None, description="Latch when the metric is greater; None = not watched.")
    below: float | None = Field(default=None, description="Latch when the metric is less; None = not watched.")
    floor: float = Field(default=0.0, ge=0, description="Coefficient from the next step on; 0 = off.")


class Latch:
    """Built controller."""

    def __init__(self, config: Config) -> None:
        self.config, self.target = config, config.target
        self.latched = False

    def value(self, step: int, steps: int, configured: float) -> float:
        return min(configured, self.config.floor) if self.latched else configured

    def observe(self, facts: Mapping[str, float]) -> None:
        """Look at the metrics of a step that is over."""
        value, c = facts.get(self.config.metric), self.config
        if value is not None:
            self.latched |= (c.above is not None and value > c.above) or (c.below is not None and value < c.below)

    def state(self) -> dict[str, Any]:
        return {"latched": self.latched}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.latched = bool(state["latched"])


def build(config: Config) -> Latch:
    """The controller for one recipe entry."""
    return Latch(config)
