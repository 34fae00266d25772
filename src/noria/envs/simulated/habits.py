"""Scripted policies: three that know what was told and reach the goal, and habits that do not.

A policy plays the conversation again on an episode of its own; since answers are recorded, it stands where the real one
does. It keeps nothing between calls, so it can take over in the middle of one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from noria.bases.world import habit_named
from noria.core.protocols import Policy
from noria.core.types import Message, Task
from noria.envs.simulated.episode import SimulatedEpisode
from noria.envs.simulated.forgeries import extra_call
from noria.envs.simulated.goals import right_answer
from noria.envs.simulated.schema import Ref
from noria.envs.simulated.tasks import domain_of, planned
from noria.tokens.calls import Call, render_call

Slip = Literal["", "early", "wrong_id", "stubborn", "extra", "misreport", "claim", "quit"]


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of working.

    weight  share of the weak model's transcripts
    way     which of the two plans
    whole   says all calls of the plan in one message
    again   reads again before it answers
    slip    what it does wrong
    advice  kind of the advice that it obeys, None for a wrong habit
    """

    weight: float
    way: int = 0
    whole: bool = False
    again: bool = False
    think: str = ""
    slip: Slip = ""
    advice: str | None = None


HABITS: Mapping[str, Habit] = {
    "stepper": Habit(0.06, think="read, then act call by call", advice="look"),
    "survey": Habit(0.05, way=1, whole=True, think="read all, then act", advice="look"),
    "checker": Habit(0.04, again=True, think="look before and after", advice="look"),
    "early": Habit(0.20, slip="early"),
    "wrong_id": Habit(0.14, slip="wrong_id"),
    "stubborn": Habit(0.15, slip="stubborn"),
    "extra": Habit(0.09, slip="extra"),
    "misreport": Habit(0.13, slip="misreport"),
    "claim": Habit(0.08, slip="claim"),
    "quit": Habit(0.06, slip="quit"),
}
EXPERTS = ("stepper", "survey")
#: Messages that a policy says at most before it gives its answer.
_MOST_MESSAGES = 20


def make_policy(
    task: Task, strategy: str, seed: int, opened: Callable[[], SimulatedEpisode], rules_seed: int
) -> Policy:
    """The policy of a habit on a task; the seed settles what the habit leaves to chance.

    Raises:
        UserError: an unknown strategy.
    """
    habit = habit_named(HABITS, strategy)
    reads = [Call(name) for name in domain_of(task).reads]

    def say(messages: Sequence[Message]) -> str:
        rng = random.Random(f"{task.id}:{strategy}:{seed}")
        episode = opened()
        for message in messages[::2]:
            episode.act(message.content)
        opening = f"<think>{habit.think}</think>" if habit.think and not messages else ""
        calls = _next(habit, task, episode, reads, len(messages) // 2, rng, rules_seed)
        if calls:
            return opening + "".join(render_call(call.name, **call.args) for call in calls)
        return opening + _answer(habit, task, episode)

    return say


def _next(
    habit: Habit,
    task: Task,
    episode: SimulatedEpisode,
    reads: list[Call],
    said: int,
    rng: random.Random,
    rules_seed: int,
) -> list[Call]:
    """The calls of the next message; none where it is time to answer."""
    known = {call.partition("(")[0] for call, _ in episode.talk}
    if habit.slip in ("claim", "quit") or said >= _MOST_MESSAGES:
        return []
    if not all(call.name in known for call in reads):
        return reads
    if habit.slip and habit.slip != "misreport":
        bent = _bent(habit.slip, task, rng, rules_seed)
        done = len(episode.talk) + episode.calls - episode.well - len(reads)
        return bent[done : done + 1]
    plan = planned(task, episode.state, habit.way, rules_seed)
    if plan:
        return plan if habit.whole else plan[:1]
    return reads if habit.again and episode.talk[-1][0].partition("(")[0] not in {call.name for call in reads} else []


def _bent(slip: Slip, task: Task, rng: random.Random, rules_seed: int) -> list[Call]:
    """The plan as a wrong habit understands it."""
    plan = planned(task, task.data["state"], 0, rules_seed)
    if slip == "early":
        return plan[: len(plan) // 2]
    if slip == "stubborn":
        return plan[-1:]
    if slip == "extra":
        beside = extra_call(task, plan, rules_seed)
        return [*plan, beside] if beside else plan[:-1]
    domain, rows = domain_of(task), task.data["state"]
    swaps: dict[str, str] = {}
    for call in plan:
        for key, kind in domain.by_name[call.name].params.items():
            others = [row for row in rows[kind.table] if row != call.args[key]] if isinstance(kind, Ref) else []
            if others:
                swaps.setdefault(call.args[key], rng.choice(others))
    return [Call(call.name, {key: swaps.get(each, each) for key, each in call.args.items()}) for call in plan]


def _answer(habit: Habit, task: Task, episode: SimulatedEpisode) -> str:
    """What the final message says."""
    truth = right_answer(task.data["goal"], task.data["state"], episode.state)
    if habit.slip == "claim":
        return "It is done."
    if habit.slip == "misreport":
        return str(int(truth) + 1) if truth.isdigit() else "nobody"
    return truth or "none"
