"""What task sources share: what they are given, what they provide, and the strict turn of the worlds.

A task source is a file of this folder with `SLOT`, `SOURCE`, `Config` and `build(config, given)`. Groups are numbered
as they are admitted; what is drawn for a group may depend on the groups observed before it was drawn, and on nothing
else, so that a continued phase draws what the undisturbed one would have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from noria.core.config import Checked
from noria.core.types import Outcome, Task


@dataclass(frozen=True)
class Given:
    """What a source draws from.

    tasks     by world, in the order of the recipe
    seed      of the phase's order
    groups    that the phase trains on if none is drawn again
    rates     pass rate of a task under the first model of the phase, None where nobody could grade it; empty where
              the phase measures no `difficulty`
    """

    tasks: Mapping[str, Sequence[Task]]
    seed: int
    groups: int
    rates: Mapping[str, float | None] = field(default_factory=dict)


class TaskSource(Protocol):
    """A built source. `task` is asked of groups in their order at first, and of any group that it has drawn later on;
    `observe` hears of groups in their order."""

    def task(self, group: int) -> Task: ...
    def observe(self, group: int, outcomes: Sequence[Outcome]) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any]) -> None: ...


class Unmoved:
    """Base of sources that learn nothing: the number of a group decides its task."""

    def observe(self, group: int, outcomes: Sequence[Outcome]) -> None:
        """Nothing is learnt from outcomes."""

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing to restore."""


class SourceConfig(Checked):
    """Frozen, and refuses keys it does not know."""


def place(group: int, tasks: Mapping[str, Sequence[Task]]) -> tuple[str, int, int]:
    """World, epoch and place in the epoch of a group: worlds strictly in turn, each task once in an epoch."""
    turn, which = divmod(group, len(tasks))
    world = list(tasks)[which]
    epoch, at = divmod(turn, len(tasks[world]))
    return world, epoch, at
