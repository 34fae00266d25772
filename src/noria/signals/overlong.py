"""Soft punishment of long answers: falls from 0 to -penalty over the last tokens before a bound (DAPO)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from noria.signals.base import Played, SignalConfig

SLOT = "reward"
SOURCE = "DAPO 2503.14476, soft overlong punishment"


class Config(SignalConfig):
    """Where it begins and how much it takes."""

    max_tokens: int = Field(
        gt=0,
        description="Generated tokens from which the whole penalty is due, observations excluded.",
        examples=[20],
    )
    buffer_tokens: int = Field(
        gt=0, description="Tokens before max_tokens over which the penalty grows (DAPO: 4096 of 20480).", examples=[10]
    )
    penalty: float = Field(default=1.0, gt=0, description="Taken from the reward at max_tokens and beyond (DAPO: 1).")

    @model_validator(mode="after")
    def _fits(self) -> Config:
        if self.buffer_tokens > self.max_tokens:
            raise ValueError(
                f"buffer_tokens must not exceed max_tokens: got {self.buffer_tokens} and {self.max_tokens} - lower it"
            )
        return self


class Overlong:
    """Built group reward."""

    needs_reference = False

    def __init__(self, config: Config) -> None:
        self.config = config

    def shape(self, rewards: Sequence[float | None], group: Sequence[Played]) -> list[float | None]:
        return [
            None if reward is None else reward - self.due(played.length)
            for reward, played in zip(rewards, group, strict=True)
        ]

    def due(self, length: int) -> float:
        """What a rollout of `length` generated tokens pays, in [0, penalty]."""
        c = self.config
        over = (length - (c.max_tokens - c.buffer_tokens)) / c.buffer_tokens
        return c.penalty * min(1.0, max(0.0, over))


def build(config: Config) -> Overlong:
    """The group reward for one recipe entry."""
    return Overlong(config)
