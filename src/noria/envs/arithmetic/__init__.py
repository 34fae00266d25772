"""The world `arithmetic`: reasoning-gym problems answered in one message with visible reasoning.

The message is `<think>steps</think>answer`; the episode ends with it. The problems and the scorer are the
gym's own (`draws`); the scripted ways of working, right and wrong, are in `habits`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from itertools import islice
from typing import Literal

from pydantic import Field, model_validator

from noria.bases.answer import AnswerEpisode, answer_in
from noria.bases.world import ScriptedWorld, check_split, habit_named
from noria.core.config import Checked
from noria.core.errors import PolicyError
from noria.core.protocols import Policy, Sandbox
from noria.core.types import Message, Outcome, Split, Task
from noria.envs.arithmetic import draws, forgeries, habits
from noria.tokens.calls import parse

_STEP = re.compile(r"\d[+*-]\d+=\d")
_ADVICE: dict[str, tuple[str, ...]] = {
    "estimate": (
        "Do not guess: work out the steps.",
        "Never estimate, compute the steps.",
        "Work out the steps instead of guessing.",
    ),
    "steps": (
        "Work step by step before you answer.",
        "Take every term, one step at a time.",
        "Go step by step to the last term.",
    ),
    "check": (
        "Check every step before you answer.",
        "Work the steps, then check each one.",
        "Compute again to check, then answer.",
    ),
    "malformed": (
        "Close the think block, then write the number.",
        "After the think block write only the number.",
        "End the think block before the number.",
    ),
}


class Config(Checked):
    """Options of the world `arithmetic`."""

    type: Literal["arithmetic"] = "arithmetic"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    datasets: tuple[draws.Dataset, ...] = Field(
        default=("chain_sum", "leg_counting"), min_length=1, description="gym datasets, in turn"
    )
    min_terms: int = Field(default=3, ge=2, description="fewest numbers in a sum")
    max_terms: int = Field(default=4, ge=2, description="most numbers in a sum")
    max_digits: int = Field(default=2, ge=1, le=4, description="most digits of a number in a sum")
    max_animals: int = Field(default=3, ge=2, le=10, description="most kinds of animals to count")
    max_count: int = Field(default=5, ge=1, le=15, description="most animals of one kind")
    max_total: int = Field(default=99, ge=9, description="running totals stay in 0..max_total")

    @model_validator(mode="after")
    def _ordered(self) -> Config:
        if self.min_terms > self.max_terms:
            raise ValueError(f"min_terms must be <= max_terms: got {self.min_terms} > {self.max_terms} - swap them")
        if 10 ** (self.max_digits - 1) > self.max_total:
            raise ValueError(
                f"max_total must admit a number of max_digits: got {self.max_total} with {self.max_digits} "
                "digits - raise max_total or lower max_digits"
            )
        if len(set(self.datasets)) != len(self.datasets):
            raise ValueError(f"datasets must be distinct: got {list(self.datasets)} - name each once")
        return self

    def options(self, name: draws.Dataset) -> list[dict[str, int]]:
        """Option sets of a gym dataset, drawn from in turn, so every number length is as common."""
        if name == "leg_counting":
            return [
                {
                    "min_animals": 2,
                    "max_animals": self.max_animals,
                    "min_instances": 1,
                    "max_instances": self.max_count,
                }
            ]
        terms = {"min_terms": self.min_terms, "max_terms": self.max_terms}
        return [{**terms, "min_digits": digits, "max_digits": digits} for digits in range(1, self.max_digits + 1)]


class ArithmeticEpisode(AnswerEpisode):
    """One problem. The first message ends it; its answer is what is graded."""

    wants = "the number"

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    def grade(self) -> Outcome:
        """1 iff the gym's scorer gives the answer full marks."""
        if self.answer is None:
            return Outcome(0.0, {"answer": 0.0}, self.fault or "no answer")
        right = draws.full_marks(self.task.data, self.answer)
        reason = "right answer" if right else "wrong answer"
        return Outcome(float(right), {"answer": float(right)}, reason)

    def fork(self) -> ArithmeticEpisode:
        """An independent copy of the state."""
        return copy(self)


class ArithmeticWorld(ScriptedWorld):
    """Sums and leg counts with visible reasoning (protocol `World`)."""

    name = "arithmetic"
    habits, experts, splits = habits.HABITS, ("careful", "direct"), draws.SPLITS
    advice = _ADVICE
    remedies: Mapping[str, str] = {"estimate": "steps", "steps": "check"}
    max_turns = 1

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct problems, the datasets in turn. UserError: unknown split, or too many tasks."""
        check_split(split, draws.SPLITS)
        streams = [
            draws.in_turn(
                [
                    draws.stream(name, options, self.config.max_total, split, seed)
                    for options in self.config.options(name)
                ]
            )
            for name in self.config.datasets
        ]
        return list(islice(draws.in_turn(streams), n))

    def open(self, task: Task) -> ArithmeticEpisode:
        return ArithmeticEpisode(task)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """The scripted habit `strategy`, deterministic in (task, strategy, seed)."""
        habit_named(habits.HABITS, strategy)
        return partial(_say, habits.play(task, strategy, seed))

    def kind(self, message: str) -> str:
        """ "malformed", "estimate" (no steps), "check" (steps and a check) or "steps"."""
        try:
            parsed = parse(message)
        except PolicyError:
            return "malformed"
        if parsed.calls or not parsed.answer:
            return "malformed"
        if not _STEP.search(parsed.think):
            return "estimate"
        return "check" if "check" in parsed.think else "steps"

    def forgeries(self, task: Task) -> list[list[str]]:
        """See `forgeries.forged`."""
        return forgeries.forged(task)

    def secrets(self, task: Task) -> list[str]:
        """See `forgeries.secrets`."""
        return forgeries.secrets(task)

    def answer(self, message: str) -> str | None:
        """The number as it was written; two answers are one where their texts are."""
        return answer_in(message) or None


def _say(message: str, _conversation: Sequence[Message]) -> str:
    return message


def build(config: Config, sandbox: Sandbox | None) -> ArithmeticWorld:
    """The world of `config`; the sandbox is not needed."""
    return ArithmeticWorld(config)
