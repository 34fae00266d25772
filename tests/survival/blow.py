"""A token weight for tests: 1, but NaN for one rollout once it was asked `after` times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Floats, SignalConfig, Tokens

SLOT = "weight"
SOURCE = "this test"


class Config(SignalConfig):
    """When."""

    after: int = Field(ge=0, description="rollouts before the one that is ill")


class Blow:
    """Counts rollouts, across a resumption too."""

    family: Literal["rl", "opd", ""] = ""

    def __init__(self, config: Config) -> None:
        self.after, self.seen = config.after, 0

    def weigh(self, tokens: Tokens) -> Floats:
        self.seen += 1
        return np.full(len(tokens.mask), np.nan if self.seen == self.after + 1 else 1.0)

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.seen = state["seen"]


def build(config: Config) -> Blow:
    """The weight."""
    return Blow(config)
