"""The teacher takes over at the first window where student and teacher part; its tokens are imitated (DTDD)."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from noria.signals.base import Bools, Floats, SignalConfig

SLOT = "takeover"
SOURCE = "DTDD (project page)"


class Config(SignalConfig):
    """When the teacher takes over, and for how long."""

    window: int = Field(default=16, ge=1, description="Trained tokens per window, W (16: ours).")
    tau: float = Field(
        default=1.0,
        allow_inf_nan=True,
        description="Takeover where a window's mean of log pi - log pi_T exceeds this; inf = never, -inf = at once.",
    )
    max_new_tokens: int = Field(default=64, ge=1, description="Tokens of the teacher's own message at most.")


class Dtdd:
    """Built takeover. The student's response is generated first: this saves no sampling."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.max_new_tokens = config.max_new_tokens

    def start(self, k1: Floats, mask: Bools) -> int | None:
        """Position of the first token of the first divergent window, None where there is none.

        `k1` [T] is log pi - log pi_T, read where `mask` is on.
        """
        at = np.flatnonzero(mask)
        for begin in range(0, len(at), self.config.window):
            window = at[begin : begin + self.config.window]
            if float(k1[window].mean()) > self.config.tau:
                return int(window[0])
        return None


def build(config: Config) -> Dtdd:
    """The takeover for one recipe entry."""
    return Dtdd(config)
