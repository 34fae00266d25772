"""Any world with slow tools: every answer takes `latency_s` longer, as a container or a service would."""

from __future__ import annotations

import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from noria.core import registry
from noria.core.protocols import Episode, Sandbox
from noria.core.types import Observation, Outcome, Task

#: Episodes act in threads of the worker.
BLOCKING = True


class Config(BaseModel):
    """Which world, and how slow."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    type: Literal["slow.world"] = "slow.world"
    of: str = Field("ledger", description="type of the world inside, with its default options")
    tasks: int = Field(64, ge=1, description="training tasks of a round")
    latency_s: float = Field(0.01, ge=0, description="seconds added to every answer of a tool")


class Slow:
    """One task being worked on."""

    def __init__(self, inner: Episode, latency_s: float) -> None:
        self.inner, self.latency_s = inner, latency_s

    def act(self, message: str) -> Observation:
        time.sleep(self.latency_s)
        return self.inner.act(message)

    def grade(self) -> Outcome:
        return self.inner.grade()

    def fork(self) -> Slow:
        return Slow(self.inner.fork(), self.latency_s)

    def close(self) -> None:
        self.inner.close()


class World:
    """The world inside, with slow episodes; whatever else it has is its own."""

    def __init__(self, config: Config, sandbox: Sandbox | None) -> None:
        module = registry.resolve("envs", config.of)
        self.inner: Any = module.build(module.Config(tasks=config.tasks), sandbox)
        self.latency_s = config.latency_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open(self, task: Task) -> Slow:
        return Slow(self.inner.open(task), self.latency_s)


def build(config: Config, sandbox: Any) -> World:
    """The world; `of` must be one that needs no sandbox unless one is given."""
    return World(config, sandbox)
