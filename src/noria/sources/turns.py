"""Worlds strictly in turn; the tasks of each are shuffled anew every epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noria.core.seeds import derive
from noria.core.types import Task
from noria.sources.base import Given, SourceConfig, Unmoved, place

SLOT = "task_source"
SOURCE = "MOPD report: domains mixed strictly 1:1"


class Config(SourceConfig):
    """Nothing to set."""


class Turns(Unmoved):
    """Built source."""

    def __init__(self, tasks: Mapping[str, Sequence[Task]], seed: int) -> None:
        self.tasks, self.seed = tasks, seed

    def task(self, group: int) -> Task:
        """The task of group `group`: the same in every run with this seed."""
        world, epoch, at = place(group, self.tasks)
        order = np.random.default_rng(derive(self.seed, world, epoch)).permutation(len(self.tasks[world]))
        return self.tasks[world][int(order[at])]


def build(config: Config, given: Given) -> Turns:
    """The source for one phase."""
    return Turns(given.tasks, given.seed)
