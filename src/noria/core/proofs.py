"""What a world says so that its tasks prove more: attempts at deceit, and what must not be shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from noria.core.protocols import Policy
from noria.core.types import Task


@runtime_checkable
class Choosy(Protocol):
    """A world that does not give all that it was pointed at as tasks."""

    def left_out(self) -> list[tuple[str, str]]:
        """What it refuses, and why each."""
        ...


@runtime_checkable
class Noting(Protocol):
    """A world that changes or passes over something of what it was pointed at."""

    def notes(self) -> list[tuple[str, str]]:
        """What it gives as tasks all the same, and what of each it changed."""
        ...


@runtime_checkable
class Habitual(Protocol):
    """A world with scripted policies, as `core.protocols.World` is."""

    experts: tuple[str, ...]
    strategies: Mapping[str, float]

    def policy(self, task: Task, strategy: str, seed: int) -> Policy: ...


@runtime_checkable
class Advising(Protocol):
    """A world that tells right habits from wrong ones."""

    def advice_for(self, strategy: str) -> str | None:
        """The kind whose advice a right habit obeys, None for a wrong habit."""
        ...


#: What is wrong with each of a list of assistant messages, "" where nothing is.
Judge = Callable[[Sequence[str]], list[str]]


@runtime_checkable
class Flawed(Protocol):
    """A world that knows which messages of a worker who makes mistakes are wrong: labels for rules that guess it."""

    def flawed(self, task: Task, seed: int) -> tuple[Policy, Judge]:
        """A policy that makes mistakes, drawn from the seed, and what judges its messages."""
        ...


@runtime_checkable
class Guarded(Protocol):
    """A world that says how its verifier could be deceived, as every world does that needs nothing from outside.

    `noria tasks validate` finds a world that has both methods by this protocol, and warns where one has not.
    """

    def forgeries(self, task: Task) -> list[list[str]]:
        """Attempts that deceive instead of solving, each the assistant messages of one episode; none may score 1."""
        ...

    def secrets(self, task: Task) -> list[str]:
        """Texts that give the solution away: neither statement nor first observation may hold one.

        A newline in a secret also stands for the beginning or the end of what is shown.
        """
        ...
