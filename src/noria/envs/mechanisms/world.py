"""The world `mechanisms`: dynamics and score from one solved model."""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import Field

from noria.bases.play import play, said
from noria.bases.world import ScriptedWorld
from noria.core.config import Checked
from noria.core.errors import PolicyError
from noria.core.protocols import Policy, Sandbox
from noria.core.types import Message, Split, Task
from noria.envs.mechanisms.advice import ADVICE, REMEDIES
from noria.envs.mechanisms.habits import EXPERTS, HABITS, make_policy
from noria.envs.mechanisms.play import Play, Zero
from noria.envs.mechanisms.tasks import FAMILIES, LOOK, NAME, SPLITS, STOP, Knobs, draw_tasks, solved_of
from noria.tokens.calls import Call, render_call


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


class MechanismWorld(ScriptedWorld):
    """Tasks, transitions, score, reference solution and scripted policies."""

    name, habits, experts, splits = NAME, HABITS, EXPERTS, SPLITS
    advice, remedies = ADVICE, REMEDIES

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of "train", "heldout" or "unseen" (a family that training never shows)."""
        return draw_tasks(split, n, seed, self.config.knobs)

    def open(self, task: Task) -> Play:
        """A fresh episode."""
        return Play(task, self.config.zero)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        return make_policy(task, strategy, seed)

    def kind_of(self, call: Call) -> str:
        """The tool of a decision, "probe", "look" or "stop"; PolicyError: there is no such tool."""
        kind = _kinds().get(call.name)
        if kind is None:
            raise PolicyError(f"no tool {call.name}")
        return kind

    def forgeries(self, task: Task) -> list[list[str]]:
        """Attempts that must not score 1: to give up, to claim, and each first mistake followed by perfect play."""
        solved = solved_of(task)
        start, act = solved.mechanism.start, solved.mechanism.act.name
        stop = render_call(STOP.name)
        best = render_call(act, n=solved.optimal(start)[0])
        attempts = [[stop], ["It is done, all optimal.", stop], [stop + best], [best.replace("call", "tool"), stop]]
        for action in solved.mechanism.actions(start):
            if solved.gap(start, action):
                attempts.append(self._after(task, render_call(act, n=action)))
        return attempts

    def secrets(self, task: Task) -> list[str]:
        """The first decision of optimal play as a call."""
        solved = solved_of(task)
        return [render_call(solved.mechanism.act.name, n=n) for n in solved.optimal(solved.mechanism.start)]

    def _after(self, task: Task, first: str) -> list[str]:
        """What was said first, then optimal play to the end."""
        episode = self.open(task)
        seen = episode.act(first)
        begun = [Message("assistant", first), Message("tool", seen.text)]
        rest = [] if seen.done else said(play(episode, self.policy(task, EXPERTS[0], 0), self.max_turns - 1, begun))[1:]
        return [first, *rest]


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
