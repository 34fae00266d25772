"""What every world promises, held to every file and package of `noria/envs`: a new one is covered unasked.

A world that needs something from outside (`NEEDS`) is held to it where a test has that: by a class of its own there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from world_contract import SEED, TASKS, WorldContract

from noria.cli_worlds import ProvableWorld, draw, opened, self_contained
from noria.core.types import Task


@cache
def drawn_of(name: str, split: str) -> tuple[Task, ...]:
    with opened(name, "process") as made:
        return tuple(draw(made, split, TASKS, SEED))


@pytest.fixture(scope="module", params=self_contained())
def world(request: pytest.FixtureRequest) -> Iterator[ProvableWorld]:
    with opened(request.param, "process") as made:
        yield made


class TestEveryWorld(WorldContract):
    """Worlds that are whole by themselves."""

    def drawn(self, world: ProvableWorld, split: str) -> tuple[Task, ...]:
        return drawn_of(world.name, split)
