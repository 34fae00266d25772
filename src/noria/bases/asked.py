"""A world whose one scripted policy is somebody who is asked: a model behind a server that gives text alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from noria.core.protocols import Episode, Policy, World
from noria.core.types import Message, Split, Task

#: Answers the conversation after a task's prompt.
Answer = Callable[[Task, Sequence[Message]], str]


class AskedWorld:
    """The world's tasks and verifier; whatever strategy is named, `answer` says the messages."""

    advice: Mapping[str, tuple[str, ...]]

    def __init__(self, inner: World, answer: Answer) -> None:
        self.inner, self._answer = inner, answer
        self.name, self.splits, self.experts = inner.name, inner.splits, inner.experts
        self.strategies, self.advice, self.remedies = inner.strategies, inner.advice, inner.remedies

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """The world's own."""
        return self.inner.tasks(split, n, seed)

    def open(self, task: Task) -> Episode:
        """The world's own."""
        return self.inner.open(task)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """Asks for each message."""
        return lambda heard: self._answer(task, heard)

    def kind(self, message: str) -> str:
        """The world's own."""
        return self.inner.kind(message)

    def close(self) -> None:
        """Close the world."""
        self.inner.close()
