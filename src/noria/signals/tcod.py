"""Curriculum on depth: front to back, few turns first; or back to front, the expert plays all but the last (TCOD)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from noria.signals.base import Begin, SignalConfig

SLOT = "rollout"
SOURCE = "TCOD 2604.24005 and its code"


class Config(SignalConfig):
    """Which end the curriculum begins at, and how fast it goes."""

    direction: Literal["front", "back"] = Field(
        description="front: at most d = 1 + step // every turns. back: the expert plays all but the last d turns.",
        examples=["front", "back"],
    )
    every: int = Field(default=6, ge=1, description="Steps per turn of depth (TCOD: 6 for front, 5 for back).")


class Tcod:
    """Built rollout controller; evaluation is never cut."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.needs_expert = config.direction == "back"

    def begin(self, step: int, expert_turns: int, max_turns: int) -> Begin:
        """How a rollout of step `step` begins; `expert_turns` is the length of the expert's episode of its task.

        The expert never plays its last turn, so that no replay finishes the task.
        """
        depth = 1 + step // self.config.every
        if self.config.direction == "front":
            return Begin(max_turns=min(max_turns, depth))
        return Begin(turns=max(0, expert_turns - depth))


def build(config: Config) -> Tcod:
    """The rollout controller for one recipe entry."""
    return Tcod(config)
