"""A world for tests: one message, paid or not by a checksum of its text, so that even a random model wins sometimes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from noria.core.protocols import Policy
from noria.core.types import Message, Observation, Outcome, Split, Task


class Config(BaseModel):
    """`flavour` changes every task and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    type: str = "survival.coin"
    tasks: int = Field(4, ge=1, description="training tasks of a round")
    flavour: str = Field("heads", description="a word in every prompt")


class Toss:
    """One task being worked on."""

    def __init__(self) -> None:
        self.said = ""

    def act(self, message: str) -> Observation:
        self.said = message
        return Observation("", done=True)

    def grade(self) -> Outcome:
        return Outcome(float(zlib.crc32(self.said.encode()) % 2))

    def fork(self) -> Toss:
        other = Toss()
        other.said = self.said
        return other

    def close(self) -> None:
        self.said = ""


class Coin:
    """The world."""

    name = "coin"
    splits: tuple[Split, ...] = ("train", "heldout")
    experts = ("silent",)
    strategies: Mapping[str, float] = {"silent": 1.0}
    advice: Mapping[str, tuple[str, ...]] = {}
    remedies: Mapping[str, str] = {}

    def __init__(self, config: Config) -> None:
        self.config = config

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        draws = np.random.default_rng(seed).choice(1_000_000, size=n, replace=False)
        return [Task(f"coin-{split}-{k}", "coin", "", f"{self.config.flavour} {k}", split=split) for k in draws]

    def open(self, task: Task) -> Toss:
        return Toss()

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        def silent(messages: Sequence[Message]) -> str:
            return ""

        return silent

    def kind(self, message: str) -> str:
        return "toss"

    def close(self) -> None:
        return None


def build(config: Config, sandbox: Any) -> Coin:
    """The world; it needs no sandbox."""
    return Coin(config)
