"""The world `mechanisms`: dynamics and score from one solved model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import PolicyError
from noria.core.protocols import Policy, Sandbox
from noria.core.types import Message, Split, Task
from noria.envs.mechanisms.advice import ADVICE, REMEDIES
from noria.envs.mechanisms.habits import EXPERTS, HABITS, make_policy
from noria.envs.mechanisms.play import Play, Zero
from noria.envs.mechanisms.tasks import FAMILIES, LOOK, NAME, SPLITS, STOP, Knobs, draw_tasks, solved_of
from noria.tokens.calls import parse, render_call

_MAX_TURNS = 24


class Config(Checked):
    """Small decision problems, solved before they are told."""

    type: Literal["mechanisms"] = "mechanisms"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    lucky_most: float = Field(
        default=0.2, gt=0, le=1, description="chance of optimal play at random that a task may have at most"
    )
    tricky_share: float = Field(
        default=0.7, ge=0, le=1, description="share of tasks on which greed errs three times in four, at least"
    )
    revealed_share: float = Field(default=0.0, ge=0, le=1, description="share of prompts that tell all parameters")
    zero: Zero = Field(default="random", description="what scores 0: play at random, or the worst play")

    @property
    def knobs(self) -> Knobs:
        """What drawing needs."""
        return Knobs(self.lucky_most, self.tricky_share, self.revealed_share)


class MechanismWorld:
    """Tasks, transitions, score, reference solution and scripted policies."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.name = NAME
        self.experts = EXPERTS
        self.strategies: Mapping[str, float] = {name: habit.weight for name, habit in HABITS.items()}
        self.advice = ADVICE
        self.remedies: Mapping[str, str] = REMEDIES
        self.splits: tuple[Split, ...] = SPLITS

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of "train", "heldout" or "unseen" (a family that training never shows)."""
        return draw_tasks(split, n, seed, self.config.knobs)

    def open(self, task: Task) -> Play:
        """A fresh episode."""
        return Play(task, self.config.zero)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        return make_policy(task, strategy, seed)

    def reference(self, task: Task) -> list[str]:
        """Assistant messages of optimal play."""
        return self._played(task, [])

    def kind(self, message: str) -> str:
        """The tool of a decision, "probe", "look" or "stop"; "answer" without a call, else "malformed"."""
        try:
            calls = parse(message).calls
        except PolicyError:
            return "malformed"
        if not calls:
            return "answer"
        return _kinds().get(calls[0].name, "malformed")

    def advice_for(self, strategy: str) -> str | None:
        """The kind whose advice a right habit obeys, None for a wrong habit."""
        return HABITS[strategy].advice

    def forgeries(self, task: Task) -> list[list[str]]:
        """Attempts that must not score 1: to give up, to claim, and each first mistake followed by perfect play."""
        solved = solved_of(task)
        start, act = solved.mechanism.start, solved.mechanism.act.name
        stop = render_call(STOP.name)
        best = render_call(act, n=solved.optimal(start)[0])
        attempts = [[stop], ["It is done, all optimal.", stop], [stop + best], [best.replace("call", "tool"), stop]]
        for action in solved.mechanism.actions(start):
            if solved.gap(start, action):
                attempts.append(self._played(task, [render_call(act, n=action)]))
        return attempts

    def secrets(self, task: Task) -> list[str]:
        """The first decision of optimal play as a call."""
        solved = solved_of(task)
        return [render_call(solved.mechanism.act.name, n=n) for n in solved.optimal(solved.mechanism.start)]

    def close(self) -> None:
        """Nothing is held."""

    def _played(self, task: Task, first: list[str]) -> list[str]:
        """What was said first, then optimal play to the end."""
        episode, policy = self.open(task), self.policy(task, EXPERTS[0], 0)
        messages: list[Message] = []
        for turn in range(_MAX_TURNS):
            said = first[turn] if turn < len(first) else policy(messages)
            seen = episode.act(said)
            messages.append(Message("assistant", said))
            if seen.done:
                break
            messages.append(Message("tool", seen.text))
        return [message.content for message in messages if message.role == "assistant"]


@cache
def _kinds() -> dict[str, str]:
    """Tool name -> its kind, over all families."""
    found = {LOOK.name: "look", STOP.name: "stop"}
    for family in FAMILIES.values():
        found |= {tool.name: "probe" for tool in family.kind.probes} | {family.kind.act.name: family.kind.act.name}
    return found


def build(config: Config, sandbox: Sandbox | None) -> MechanismWorld:
    """The world of a config; it needs no sandbox."""
    return MechanismWorld(config)
