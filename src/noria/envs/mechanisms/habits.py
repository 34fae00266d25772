"""Scripted policies: three that play optimally, each rendered in its own way, and habits that do not.

A policy plays the conversation again to know the state; the optimal ones ask for every parameter before they decide. It
keeps nothing between calls, so it can take over in the middle of an episode.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from noria.bases.world import habit_named
from noria.core.protocols import Policy
from noria.core.types import Message, Task
from noria.envs.mechanisms.play import Play
from noria.envs.mechanisms.tasks import LOOK, STOP, questions
from noria.tokens.calls import Call, render_call


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of playing.

    weight    share of the weak model's transcripts
    choose    which action: optimal (first or last of several), greedy, the least, the most, always the same, by chance
    asks      asks for the parameters: all in one message, one by one, never
    looks     looks where things stand before each decision
    stops     gives up after its first decision
    think     what it says to itself at the start
    advice    kind of the advice that it obeys, None for a wrong habit
    """

    weight: float
    choose: Literal["first", "last", "greedy", "least", "most", "same", "chance"]
    asks: Literal["all", "each", "never"] = "never"
    looks: bool = False
    stops: bool = False
    think: str = ""
    advice: str | None = None

    @property
    def right(self) -> bool:
        """Whether it reaches the optimum on every task."""
        return self.choose in ("first", "last") and not self.stops


HABITS: Mapping[str, Habit] = {
    "planner": Habit(0.05, "first", "all", think="learn all, then plan to the end", advice="probe"),
    "watcher": Habit(0.04, "last", "all", looks=True, think="look at each step", advice="look"),
    "stepper": Habit(0.03, "first", "each", think="learn one by one", advice="probe"),
    "greedy": Habit(0.24, "greedy", "all", think="take the best now"),
    "timid": Habit(0.13, "least"),
    "bold": Habit(0.13, "most"),
    "blind": Habit(0.15, "same"),
    "random": Habit(0.15, "chance"),
    "quit": Habit(0.08, "first", "all", stops=True),
}
EXPERTS = ("planner", "watcher")


def make_policy(task: Task, strategy: str, seed: int) -> Policy:
    """The policy of a habit on a task; the seed settles what the habit leaves to chance.

    Raises:
        UserError: an unknown strategy.
    """
    habit = habit_named(HABITS, strategy)

    def say(messages: Sequence[Message]) -> str:
        play = Play(task)
        for message in messages[::2]:
            play.act(message.content)
        opening = f"<think>{habit.think}</think>" if habit.think and not messages else ""
        calls = _plan(habit, play, f"{task.id}:{strategy}:{seed}")
        return opening + "".join(render_call(call.name, **call.args) for call in calls)

    return say


def _plan(habit: Habit, play: Play, key: str) -> list[Call]:
    """The calls of the next message."""
    mechanism = play.solved.mechanism
    if play.over or (habit.stops and play.gaps):
        return [Call(STOP.name)]
    with_number = {tool.name for tool in mechanism.probes if tool.parameters}
    open_questions = [question for question in questions(mechanism) if question not in play.asked]
    if habit.asks != "never" and open_questions:
        found = [Call(name, {"n": str(n)} if name in with_number else {}) for name, n in open_questions]
        return found if habit.asks == "all" else found[:1]
    decision = Call(mechanism.act.name, {"n": str(_choose(habit, play, key))})
    return [Call(LOOK.name), decision] if habit.looks else [decision]


def _choose(habit: Habit, play: Play, key: str) -> int:
    """The action that the habit takes."""
    state, mechanism = play.state, play.solved.mechanism
    actions = mechanism.actions(state)
    if habit.choose in ("first", "last"):
        return play.solved.optimal(state)[0 if habit.choose == "first" else -1]
    if habit.choose == "greedy":
        return mechanism.greedy(state)
    if habit.choose in ("least", "most"):
        return actions[0 if habit.choose == "least" else -1]
    if habit.choose == "chance":
        return random.Random(f"{key}:{len(play.gaps)}").choice(actions)
    wanted = random.Random(key).choice(mechanism.actions(mechanism.start))
    return min(actions, key=lambda action: (abs(action - wanted), action))
