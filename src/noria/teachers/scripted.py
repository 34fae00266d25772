"""A scripted teacher: one of a world's own strategies, played on every task."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.protocols import Policy, World
from noria.core.strategies import strategy_of
from noria.core.types import Task

#: A script says what to do and has no probabilities, so it cannot be the route of a distillation.
SCORES_TOKENS = False


class Config(Checked):
    """Which strategy."""

    type: Literal["scripted"] = "scripted"
    strategy: str = Field(description="a strategy that every world has, or expert:1 for each world's first expert")


class ScriptedTeacher:
    """Plays the strategy of its config."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def policy(self, world: World, task: Task, seed: int) -> Policy:
        """The script for one task.

        Raises:
            UserError: the world has no such strategy; lists those it has.
        """
        strategy = strategy_of(world, self.config.strategy)
        if strategy is None:
            raise UserError(
                f"teachers: strategy must be one of the world {world.name}: got {self.config.strategy!r}, "
                f"expected one of {', '.join(world.strategies)} - its experts are {', '.join(world.experts)}"
            )
        return world.policy(task, strategy, seed)


def build(config: Config) -> ScriptedTeacher:
    """The teacher of a recipe's table."""
    return ScriptedTeacher(config)
