"""Moves a coefficient in a straight line from its configured value to an end value, then holds it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from noria.signals.base import SignalConfig

SLOT = "controller"
SOURCE = "schedules of alpha and beta are left open by the MOPD report; a straight line is our choice"


class Config(SignalConfig):
    """What moves where, and by when."""

    target: str = Field(description="alpha, beta, or a loss term of the phase.", examples=["alpha"])
    end: float = Field(ge=0, description="Value at the end; 0 switches the part off.", examples=[0.0])
    steps: int | None = Field(default=None, ge=1, description="Steps that it takes; None = the phase's.")


class Linear:
    """Built controller."""

    def __init__(self, config: Config) -> None:
        self.config, self.target = config, config.target

    def value(self, step: int, steps: int, configured: float) -> float:
        """Coefficient at a step in [0, steps)."""
        length = self.config.steps or max(1, steps - 1)
        share = min(1.0, step / length)
        return self.config.end if share == 1.0 else configured + share * (self.config.end - configured)

    def observe(self, facts: Mapping[str, float]) -> None:
        """Nothing is learnt from metrics."""


def build(config: Config) -> Linear:
    """The controller for one recipe entry."""
    return Linear(config)
