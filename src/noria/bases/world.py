"""What most worlds have in common: scripted habits, a reference that an expert plays, kinds by the first call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol, TypeVar

from noria.bases.play import play, said
from noria.bases.turn import kind_of_first
from noria.core.errors import UserError
from noria.core.protocols import Episode, Policy
from noria.core.types import Split, Task
from noria.tokens.calls import Call


class Raised(Protocol):
    """A habit as a world tells of it.

    weight  its share of the weak model's transcripts
    advice  the kind of advice that it obeys where it is right, None for a wrong habit
    """

    @property
    def weight(self) -> float: ...
    @property
    def advice(self) -> str | None: ...


H = TypeVar("H")


def habit_named(habits: Mapping[str, H], strategy: str) -> H:
    """The habit of a name. Raises UserError: there is none."""
    if strategy not in habits:
        raise UserError(f"strategy must be one of {', '.join(habits)}: got {strategy!r} - choose one of them")
    return habits[strategy]


def check_split(split: str, splits: tuple[Split, ...]) -> None:
    """Raises UserError: a world has no such split."""
    if split not in splits:
        raise UserError(f"split must be one of {', '.join(splits)}: got {split!r} - choose one of them")


class ScriptedWorld(ABC):
    """Base of worlds with scripted habits; with it a world is a `core.protocols.World`.

    `experts` are habits that are always right, the first of them plays the reference, in `max_turns` messages at most.
    """

    name: str
    habits: Mapping[str, Raised]
    experts: tuple[str, ...]
    splits: tuple[Split, ...] = ("train", "heldout")
    advice: Mapping[str, tuple[str, ...]]
    remedies: Mapping[str, str] = {}
    max_turns = 24

    def __init__(self) -> None:
        self.strategies: Mapping[str, float] = {name: habit.weight for name, habit in self.habits.items()}

    @abstractmethod
    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of a split. UserError: an unknown split, or more than there are."""

    @abstractmethod
    def open(self, task: Task) -> Episode:
        """A fresh episode."""

    @abstractmethod
    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """The scripted policy of a habit, deterministic in (task, strategy, seed). UserError: an unknown strategy."""

    def reference(self, task: Task) -> list[str]:
        """Assistant messages of a solution: what the first expert says, played out."""
        return self.played(task, self.experts[0], 0)

    def played(self, task: Task, strategy: str, seed: int) -> list[str]:
        """What a habit says on a task until the episode ends."""
        episode = self.open(task)
        try:
            return said(play(episode, self.policy(task, strategy, seed), self.max_turns))
        finally:
            episode.close()

    def kind(self, message: str) -> str:
        """The kind of the first call, "answer" without a call, "malformed" where it cannot be executed."""
        return kind_of_first(message, self.kind_of)

    def kind_of(self, call: Call) -> str:
        """The kind of one call: its tool. PolicyError: it cannot be executed."""
        return call.name

    def advice_for(self, strategy: str) -> str | None:
        """The kind whose advice a right habit obeys, None for a wrong habit."""
        return self.habits[strategy].advice

    def close(self) -> None:  # noqa: B027 - most worlds hold nothing
        """Nothing is held."""
