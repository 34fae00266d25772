"""Scripted ways of working on a problem: right ones, and those that end in a typical error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from noria.core.types import Message, Task
from noria.tokens.calls import render_call

Check = Literal["none", "real", "nod"]


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of working.

    weight   share of the weak model's transcripts
    error    kind of the error that it makes; "" = none, "guess" = one of them or, now and then, the answer
    shows    how much of the work it writes down: "all", "first" line only, "none"
    check    what it does before it answers: nothing, a real check (with the calculator where there is one), a nod
    boxed    writes the answer in another of its forms
    advice   kind of advice that it obeys, None for a wrong habit
    """

    weight: float
    error: str = ""
    shows: Literal["all", "first", "none"] = "all"
    check: Check = "none"
    boxed: bool = False
    advice: str | None = None


HABITS: Mapping[str, Habit] = {
    "careful": Habit(0.10, check="real", advice="check"),
    "direct": Habit(0.08, advice="steps"),
    "boxed": Habit(0.06, boxed=True, advice="steps"),
    "terse": Habit(0.06, shows="first", advice="steps"),
    "slip": Habit(0.14, error="slip"),
    "sign": Habit(0.10, error="sign"),
    "formula": Habit(0.12, error="formula"),
    "early": Habit(0.12, error="skip", shows="first"),
    "unit": Habit(0.06, error="unit"),
    "nod": Habit(0.08, error="slip", check="nod"),
    "guess": Habit(0.08, error="guess", shows="none"),
}
EXPERTS = ("careful", "direct")
#: How often a guess is right.
_LUCK = 0.15


def say(task: Task, heard: Sequence[Message], habit: Habit, rng: Random) -> str:
    """The next message: one call of the calculator for a real check where there is one, then the answer."""
    data = task.data
    if task.tools and habit.check == "real" and data["check"] and not heard:
        return render_call(task.tools[0].name, expression=data["check"])
    answer = _answer(task, habit, rng)
    thought = {"all": data["work"], "first": data["work"][:1], "none": []}[habit.shows]
    lines = ["; ".join(thought)] if thought else []
    if habit.check == "real":
        lines.append(f"check {heard[-1].content}" if heard else "check again: same")
    elif habit.check == "nod":
        lines.append("check ok")
    return (f"<think>{' '.join(lines)}</think>" if lines else "") + answer


def _answer(task: Task, habit: Habit, rng: Random) -> str:
    data = task.data
    wrong: Mapping[str, str] = data["wrong"]
    if habit.error == "guess":
        return str(data["answer"]) if rng.random() < _LUCK else wrong[rng.choice(sorted(wrong))]
    if habit.error:
        # A problem in which this error cannot be made tempts to another.
        return wrong[habit.error] if habit.error in wrong else wrong[sorted(wrong)[0]]
    return str(rng.choice(data["forms"])) if habit.boxed and data["forms"] else str(data["answer"])
