"""Worlds that come from outside: their tasks and rewards are somebody else's, and so few ways of working are known.

Such a world knows at most one solution of a task, its `reference`, and none where nobody told one. Any call is of one
kind, since names of tools are not known before a task is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

from noria.bases.advice import MALFORMED, act
from noria.bases.turn import kind_of_first
from noria.core.errors import UserError
from noria.core.protocols import Episode, Policy
from noria.core.types import Message, Split, Task

T = TypeVar("T")
REFERENCE, SILENT, TALK = "reference", "silent", "talk"
CALL = "call"
_ADVICE: Mapping[str, tuple[str, ...]] = {
    CALL: ("Read what a tool takes before you call it.", "Mind every argument.", "Look at what came back."),
    "answer": act("Answer when all is done."),
    "malformed": MALFORMED,
}


class OutsideWorld(ABC):
    """Base of worlds from outside; with it a world is a `core.protocols.World`.

    `solved` says whether solutions are known; where they are, `reference` is the one expert.
    """

    name: str
    splits: tuple[Split, ...]
    advice: Mapping[str, tuple[str, ...]] = _ADVICE
    remedies: Mapping[str, str] = {"answer": CALL}

    def __init__(self, solved: bool) -> None:
        self.experts: tuple[str, ...] = (REFERENCE,) if solved else ()
        self.strategies: Mapping[str, float] = {**dict.fromkeys(self.experts, 0.5), SILENT: 0.25, TALK: 0.25}

    @abstractmethod
    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of a split. UserError: an unknown split, or more than there are."""

    @abstractmethod
    def open(self, task: Task) -> Episode:
        """A fresh episode."""

    @abstractmethod
    def reference(self, task: Task) -> list[str]:
        """Assistant messages of a solution. UserError: none is known."""

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy: the reference, nothing at all, or words without a call. UserError: an unknown strategy."""
        if strategy not in self.strategies:
            known = ", ".join(self.strategies)
            raise UserError(f"strategy must be one of {known}: got {strategy!r} - choose one of them")
        if strategy == REFERENCE:
            return recited(self.reference(task))
        return recited([""] if strategy == SILENT else ["I will see what can be done."])

    def kind(self, message: str) -> str:
        """`call` for a message that calls something, "answer" without a call, "malformed" where it cannot be read."""
        return kind_of_first(message, lambda call: CALL)

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Nothing is held."""


def recited(messages: Sequence[str]) -> Policy:
    """A policy that says these messages in turn, and the last again when they are through."""

    def say(heard: Sequence[Message]) -> str:
        at = sum(message.role == "assistant" for message in heard)
        return messages[min(at, len(messages) - 1)]

    return say


def taken(there: Sequence[T], n: int, what: str) -> list[T]:
    """The first `n`. Raises UserError: there are fewer; `what` names them."""
    if n > len(there):
        raise UserError(f"tasks must be at most {len(there)} of {what}: got {n} - ask for fewer")
    return list(there[:n])
