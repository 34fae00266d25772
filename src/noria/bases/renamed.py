"""A world whose tools are shown under other names and shapes: a layer between a policy and the world's own episode.

A task says its renaming itself, in `data`, so that it can be played wherever its world can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from noria.core.codec import from_json, to_json
from noria.core.protocols import Episode, Policy, World
from noria.core.types import Message, Observation, Outcome, Split, Task, Tool
from noria.tokens import retold
from noria.tokens.renaming import Renaming

#: Where a task holds its renaming.
KEY = "renaming"


class RenamedEpisode:
    """Hears shown messages, and answers with what the world says, as it is shown."""

    def __init__(self, inner: Episode, renaming: Renaming) -> None:
        self.inner, self.renaming = inner, renaming

    def act(self, message: str) -> Observation:
        """Do what a shown message means; raises what the world raises."""
        heard = retold.meant(self.renaming, message)
        found = self.inner.act(heard)
        return replace(found, text=retold.seen(self.renaming, heard, found.text))

    def grade(self) -> Outcome:
        """The world's own."""
        return self.inner.grade()

    def fork(self) -> RenamedEpisode:
        """An independent episode in the same state."""
        return RenamedEpisode(self.inner.fork(), self.renaming)

    def close(self) -> None:
        """Close the world's episode."""
        self.inner.close()


class RenamedWorld:
    """The tasks of a world, each under the renaming that `draw` gives it."""

    advice: Mapping[str, tuple[str, ...]]

    def __init__(self, inner: World, draw: Callable[[Task], Renaming]) -> None:
        self.inner, self._draw = inner, draw
        self.name, self.splits, self.experts = inner.name, inner.splits, inner.experts
        self.strategies, self.advice, self.remedies = inner.strategies, inner.advice, inner.remedies

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """The world's tasks with their tools as shown."""
        return [renamed(task, self._draw(task)) for task in self.inner.tasks(split, n, seed)]

    def open(self, task: Task) -> RenamedEpisode:
        """A fresh episode of a task of `tasks`."""
        own, renaming = parted(task)
        return RenamedEpisode(self.inner.open(own), renaming)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """The world's scripted policy, which sees and says what it always does, translated."""
        own, renaming = parted(task)
        policy = self.inner.policy(own, strategy, seed)

        def said(heard: Sequence[Message]) -> str:
            return retold.said(renaming, policy(_unseen(renaming, heard)))

        return said

    def kind(self, message: str) -> str:
        """The world's kind of a message of its own; a shown one has its task's renaming, which is not told here."""
        return self.inner.kind(message)

    def close(self) -> None:
        """Close the world."""
        self.inner.close()


def renamed(task: Task, renaming: Renaming) -> Task:
    """A task as it is shown under a renaming, which it holds."""
    names = {tool.name: tool.quoted for tool in renaming.tools}
    return replace(
        task,
        system=retold.retold(task.system, names),
        prompt=retold.retold(task.prompt, names, marked=True),
        tools=renaming.schemas,
        data={
            **task.data,
            KEY: {
                "tools": to_json(renaming),
                "system": task.system,
                "prompt": task.prompt,
                "own": [to_json(tool) for tool in task.tools],
            },
        },
    )


def parted(task: Task) -> tuple[Task, Renaming]:
    """The world's own task, and the renaming. Raises ValueError: the task is under none."""
    if KEY not in task.data:
        raise ValueError(f"task {task.id} must hold its renaming")
    held: Mapping[str, Any] = task.data[KEY]
    own = {key: value for key, value in task.data.items() if key != KEY}
    tools = tuple(from_json(Tool, each) for each in held["own"])
    whole = replace(task, system=held["system"], prompt=held["prompt"], tools=tools, data=own)
    return whole, from_json(Renaming, held["tools"])


def _unseen(renaming: Renaming, heard: Sequence[Message]) -> list[Message]:
    out: list[Message] = []
    for message in heard:
        if message.role == "assistant":
            out.append(Message("assistant", retold.meant(renaming, message.content)))
        else:
            last = out[-1].content if out else ""
            out.append(Message(message.role, retold.unseen(renaming, last, message.content)))
    return out
