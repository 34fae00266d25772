"""A world in one file: say how a task is drawn, how an episode runs, and how it is worked on; the rest follows.

class Guessing(SmallWorld):
    name, experts, ways = "guess", ("halve", "third"), {"halve": Way(0.1, halve, "compare"), …}

    def draw(self, rng: random.Random) -> Drawn: …
    def open(self, task: Task) -> Guess: …
"""

from __future__ import annotations

import hashlib
import json
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from noria.bases.advice import MALFORMED, act
from noria.bases.world import ScriptedWorld, check_split, habit_named
from noria.core.errors import PolicyError, UserError
from noria.core.protocols import Policy
from noria.core.types import Message, Split, Task, Tool
from noria.tokens.calls import Call
from noria.tokens.tool_episode import ToolEpisode

#: What the policy says next, from the task and the conversation after the prompt so far. The chance is the same at
#: every turn of an episode, so that a way may take over in the middle of one.
Say = Callable[[Task, Sequence[Message], random.Random], str]

#: One task in this many is held out.
_HELDOUT_ONE_IN = 4
#: Draws for one new task before the space counts as exhausted.
_MAX_DRAWS = 500


@dataclass(frozen=True, slots=True)
class Way:
    """A way of working: its share of the weak model's transcripts, and the advice that it obeys if it is right."""

    weight: float
    say: Say
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """What one draw gives: the user's message, and the instance as plain JSON, enough to open and to grade it."""

    prompt: str
    data: Mapping[str, Any] = field(default_factory=dict)


class SmallWorld(ScriptedWorld):
    """Base of a world in one file; it writes `draw` and `open`, and names its `ways` and `experts`.

    Splits go by the content of a task, its SHA-256 modulo 4, whatever the seed: 0 is held out. Where episodes are
    `tokens.tool_episode.ToolEpisode`, tasks show their tools, and the kind of an action is the tool that it calls.
    """

    system = "Do what is asked."
    ways: Mapping[str, Way]
    advice: Mapping[str, tuple[str, ...]] = {"answer": act("Act, then answer."), "malformed": MALFORMED}

    def __init__(self) -> None:
        self.habits = self.ways
        self._names: set[str] | None = None
        super().__init__()

    @abstractmethod
    def draw(self, rng: random.Random) -> Drawn:
        """One task."""

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of a split; a shorter list is a prefix of a longer.

        Raises:
            UserError: an unknown split, or fewer tasks than asked for.
        """
        check_split(split, self.splits)
        rng = random.Random(f"{self.name}:{split}:{seed}")
        found: dict[str, Task] = {}
        for _ in range(_MAX_DRAWS * (n + 1)):
            if len(found) == n:
                return list(found.values())
            task = self._task(self.draw(rng), split)
            if task is not None:
                found.setdefault(task.id, task)
        raise UserError(f"tasks must be fewer: got {n}, found {len(found)} - ask for fewer, or draw from more")

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """The scripted policy of a way."""
        way = habit_named(self.ways, strategy)
        return lambda heard: way.say(task, heard, random.Random(f"{task.id}:{strategy}:{seed}"))

    def forgeries(self, task: Task) -> list[list[str]]:
        """Attempts that no task may reward: nothing, the prompt, a claim, a call that is cut off."""
        return [[""], [task.prompt], ["Done."], ["It is solved: all is as it was asked."], ['<call name="']]

    def secrets(self, task: Task) -> list[str]:
        """Texts that give the solution away, for the leak scan; none unless the world says so."""
        return []

    def kind_of(self, call: Call) -> str:
        """The tool; PolicyError: neither is there advice about it, nor is it a tool."""
        if self._names is None:
            self._names = {tool.name for tool in self._tools(self._bare(self.draw(random.Random(0)), "train", ""))}
        if call.name not in self.advice and call.name not in self._names:
            raise PolicyError(f"no tool {call.name}")
        return call.name

    def _task(self, drawn: Drawn, split: Split) -> Task | None:
        """The task of a draw, None where its content is of the other split."""
        content = json.dumps([drawn.prompt, drawn.data], sort_keys=True)
        drawn = Drawn(drawn.prompt, json.loads(content)[1])  # as it will be read from a file
        digest = hashlib.sha256(content.encode()).hexdigest()
        if (int(digest[:8], 16) % _HELDOUT_ONE_IN == 0) != (split == "heldout"):
            return None
        task = self._bare(drawn, split, digest)
        return replace(task, tools=self._tools(task))

    def _tools(self, task: Task) -> tuple[Tool, ...]:
        """The tools of an episode that is made of typed ones."""
        episode = self.open(task)
        try:
            return episode.box.schemas if isinstance(episode, ToolEpisode) else ()
        finally:
            episode.close()

    def _bare(self, drawn: Drawn, split: Split, digest: str) -> Task:
        return Task(f"{self.name}-{split}-{digest[:10]}", self.name, self.system, drawn.prompt, (), drawn.data, split)
