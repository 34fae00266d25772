"""Scripted ways of working on a problem: right ones, and the sloppy ones the weak model was raised on.

A habit is put together from independent choices: whether to restate the problem, how to work (steps, a
guess, …), whether one step slips, and what the check is worth. Every message is deterministic in
(task, strategy, seed).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from noria.core.types import Task

#: One written step: left operand, operator, right operand, result as written (perhaps wrong).
Step = tuple[int, str, int, int]
Work = Literal["steps", "guess", "about", "careless", "forget"]
Check = Literal["none", "real", "nod", "copy", "ignore"]


@dataclass(frozen=True, slots=True)
class Habit:
    """One way of working.

    weight      share of the habit in the mixture
    work        "steps" all of them; "guess" the answer alone; "about" the nearest ten; "careless" adds where
                it should subtract, or takes every animal to have four legs; "forget" leaves out the last term
    restate     starts by writing down the problem
    slip        one step is wrong (a dropped carry, off by ten, a wrong product)
    check       "real" computes again; "nod" claims it; "copy" writes the same steps again, slip and all;
                "ignore" computes again, sees another result, and answers with the first
    checks      how often it checks
    advice      for a right habit, the kind of advice that it obeys
    """

    weight: float
    work: Work = "steps"
    restate: bool = False
    slip: bool = False
    check: Check = "none"
    checks: int = 0
    advice: str | None = None


HABITS: dict[str, Habit] = {
    "direct": Habit(0.03, advice="steps"),
    "restate": Habit(0.02, restate=True, advice="estimate"),
    "careful": Habit(0.04, check="real", checks=1, advice="check"),
    "double": Habit(0.07, check="real", checks=2, advice="check"),
    "thorough": Habit(0.09, restate=True, check="real", checks=2, advice="check"),
    "recover": Habit(0.04, slip=True, check="real", checks=1, advice="check"),
    "guess": Habit(0.08, work="guess"),
    "about": Habit(0.07, work="about"),
    "careless": Habit(0.09, work="careless"),
    "forget": Habit(0.09, work="forget"),
    "slip": Habit(0.13, slip=True),
    "nod": Habit(0.10, slip=True, check="nod", checks=1),
    "copy": Habit(0.09, restate=True, slip=True, check="copy", checks=1),
    "ignore": Habit(0.06, slip=True, check="ignore", checks=1),
}


def play(task: Task, strategy: str, seed: int) -> str:
    """The whole assistant message of a habit."""
    habit = HABITS[strategy]
    rng = random.Random(f"{task.id}:{strategy}:{seed}")
    terms: list[list[int]] = task.data["terms"]
    answer = steps_of(terms)[-1][3]
    if habit.work == "guess":
        return str(_guess(answer, rng))
    if habit.work == "about":
        rough = (answer + 5) // 10 * 10
        return f"<think>about {rough}</think>{rough}"
    if habit.work == "careless":
        terms = _careless(terms)
    elif habit.work == "forget":
        terms = terms[:-1]
    good = steps_of(terms)
    first = _slipped(terms, rng) if habit.slip else good
    parts = [_restated(task)] if habit.restate else []
    parts.append(_written(first))
    result = first[-1][3]
    for _ in range(habit.checks):
        text, result = _checked(habit.check, first, good, result)
        parts.append(text)
    return f"<think>{' '.join(parts)}</think>{result}"


def steps_of(terms: Sequence[Sequence[int]], slip_at: int = -1, error: int = 0) -> list[Step]:
    """The steps left to right: each product when its turn comes, then the running total.

    `slip_at` is the index of a step whose written result is off by `error`; later steps go on from it.
    """
    steps: list[Step] = []

    def write(left: int, op: str, right: int) -> int:
        exact = {"+": left + right, "-": left - right, "*": left * right}[op]
        result = exact + (error if len(steps) == slip_at else 0)
        steps.append((left, op, right, result))
        return result

    total: int | None = None
    for sign, number, *each in terms:
        value = write(number, "*", each[0]) if each else number
        total = value if total is None else write(total, "+" if sign > 0 else "-", value)
    return steps


def _checked(check: Check, first: list[Step], good: list[Step], result: int) -> tuple[str, int]:
    """Text of one check and the result that is answered after it."""
    if check == "nod":
        return "check ok", result
    if check == "copy":
        return f"check {_written(first)} ok", result
    if good[-1][3] == result:
        return f"check {_written(good)} ok", result
    return f"check {_written(good)} no", result if check == "ignore" else good[-1][3]


def _slipped(terms: list[list[int]], rng: random.Random) -> list[Step]:
    """The steps with one plausible slip that no later step makes negative."""
    good = steps_of(terms)
    order = list(range(len(good)))
    rng.shuffle(order)
    for at in order:
        for error in _errors(good[at], rng):
            steps = steps_of(terms, at, error)
            if all(step[3] >= 0 for step in steps) and steps[-1][3] != good[-1][3]:
                return steps
    return steps_of(terms, len(good) - 1, 10)


def _errors(step: Step, rng: random.Random) -> list[int]:
    """Plausible errors: a dropped carry or borrow, else off by ten, by one, or by one table row."""
    left, op, right, _ = step
    if op == "*":
        return rng.sample([right, -right], 2) if right else [left]
    if op == "+" and left % 10 + right % 10 >= 10:
        return [-10]
    if op == "-" and left % 10 < right % 10:
        return [10]
    return rng.sample([10, -10, 1, -1], 4)


def _careless(terms: list[list[int]]) -> list[list[int]]:
    return [[1, number, *(4 for _ in each)] for _, number, *each in terms]


def _guess(answer: int, rng: random.Random) -> int:
    """Near the answer; right three times in ten below ten, once in ten above."""
    if rng.random() < (0.3 if answer < 10 else 0.1):
        return answer
    return abs(answer + rng.choice([-10, -5, -2, -1, 1, 2, 5, 10]))


def _written(steps: Sequence[Step]) -> str:
    return " ".join(f"{left}{op}{right}={result}" for left, op, right, result in steps)


def _restated(task: Task) -> str:
    """The problem in short: the sum itself, or the legs of every animal."""
    names: list[str] = task.data["names"]
    if not names:
        return f"given {task.prompt.split()[-1]} so"
    facts = " ".join(f"{name}={term[2]}" for name, term in zip(names, task.data["terms"], strict=True))
    return f"given {facts} so"
