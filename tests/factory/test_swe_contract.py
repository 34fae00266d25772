"""The world `swe` holds what every world promises, on a dataset made for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_repos import shapes
from world_contract import SEED, WorldContract

from noria.cli_worlds import ProvableWorld, draw
from noria.core.types import Task
from noria.envs.swe import Config, build
from noria.factory.make import Plan, make
from noria.sandboxes import bwrap

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvableWorld]:
    place: Path = tmp_path_factory.mktemp("swe")
    sandbox = bwrap.build(bwrap.Config(type="bwrap", memory_mb=768, servers=1))
    make(Plan((shapes(place / "shapes"),), place / "out", 14, workers=1, repeats=2, per_target=4), sandbox)
    made = build(Config(path=str(place / "out"), heldout=0.4), sandbox)
    yield made
    made.close()
    sandbox.close()


class TestSwe(WorldContract):
    """Of each split two tasks are looked at: each of their tests is a run of a suite."""

    def drawn(self, world: ProvableWorld, split: str) -> tuple[Task, ...]:
        return tuple(draw(world, split, 2, SEED))

    def test_its_tasks_are_those_of_the_seed_each_once_and_in_one_split(self, world: ProvableWorld) -> None:
        assert world.splits == ("train", "heldout")
        drawn = {split: draw(world, split, 2, SEED) for split in world.splits}
        assert [len(tasks) for tasks in drawn.values()] == [2, 2]
        assert len({task.id for tasks in drawn.values() for task in tasks}) == 4
        assert drawn == {split: draw(world, split, 2, SEED) for split in world.splits}
