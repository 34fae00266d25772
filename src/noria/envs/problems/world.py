"""The world `problems`: mathematics and science with answers that are checked by what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Literal

from pydantic import Field, model_validator

from noria.bases.advice import MALFORMED
from noria.bases.world import ScriptedWorld, habit_named
from noria.core.config import Checked
from noria.core.protocols import Policy, Sandbox
from noria.core.registry import nearest
from noria.core.turns import Progress
from noria.core.types import Outcome, Split, Task
from noria.envs.problems.calculator import calculate
from noria.envs.problems.gym import GymSource
from noria.envs.problems.habits import EXPERTS, HABITS, say
from noria.envs.problems.tasks import CALCULATOR, NAME, SPLITS, TEMPLATES, draw_tasks
from noria.graders.base import Case
from noria.graders.blocking import BlockingRouter
from noria.graders.router import Limits
from noria.tokens.calls import Heard, Malformed, hear
from noria.tokens.tool_episode import ToolEpisode
from noria.tokens.toolbox import Toolbox, tool

_MAX_MEMO = 20_000
ADVICE: Mapping[str, tuple[str, ...]] = {
    "steps": ("Write the steps down before you answer.", "Work step by step.", "Show each step, then answer."),
    "check": ("Check the result before you answer.", "Compute it again another way.", "Test the answer once."),
    "answer": ("Do not guess: work it out.", "Think first, then answer.", "Give the answer only after the work."),
    "malformed": MALFORMED,
}


class Config(Checked):
    """Which problems are drawn, and what may be used."""

    type: Literal["problems"] = "problems"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    templates: tuple[str, ...] = Field(default=(), description="names of templates; () = all of them")
    subjects: tuple[str, ...] = Field(default=(), description="subjects whose templates are drawn; () = all of them")
    gym: tuple[str, ...] = Field(default=(), description="datasets of reasoning-gym that are drawn in turn with these")
    gym_only: bool = Field(default=False, description="whether no templates are drawn")
    longest: int = Field(default=2000, ge=20, description="characters of a question of reasoning-gym at most")
    calculator: bool = Field(default=False, description="whether there is a tool that does arithmetic")
    children: int = Field(default=2, ge=1, le=64, description="processes that compare answers")

    @model_validator(mode="after")
    def _names_what_there_is(self) -> Config:
        subjects = sorted({template.subject for template in TEMPLATES.values()})
        for field, named, known in (
            ("templates", self.templates, list(TEMPLATES)), ("subjects", self.subjects, subjects)
        ):  # fmt: skip
            for name in named:
                if name not in known:
                    raise ValueError(
                        f"{field} must name some of {', '.join(known)}: got {name!r}{nearest(name, known)}"
                    )
        if self.gym_only and not self.gym:
            raise ValueError("gym must name datasets where gym_only is set: got none")
        return self

    def chosen(self) -> list[str]:
        """Names of the templates that are drawn."""
        if self.gym_only:
            return []
        named = self.templates or tuple(TEMPLATES)
        return [name for name in named if not self.subjects or TEMPLATES[name].subject in self.subjects]


class ProblemEpisode(ToolEpisode):
    """One problem; a message without a call is the answer."""

    def __init__(self, world: ProblemWorld, task: Task) -> None:
        super().__init__(Toolbox([tool(calc, expression="as 2*(3 + 1/4)")] if task.tools else []))
        self._world, self._task = world, task

    def grade(self) -> Outcome:
        """What the grader of the task's type says to the answer."""
        if not self.answer:
            return Outcome(0.0, {"answer": 0.0}, "no answer")
        return self._world.graded(self._task, self.answer)

    def fork(self) -> ProblemEpisode:
        """An independent episode in the same state."""
        other = ProblemEpisode(self._world, self._task)
        other.answer, other.ended, other.progress = self.answer, self.ended, Progress(self.progress.state)
        return other

    def close(self) -> None:
        """Nothing is held."""


class ProblemWorld(ScriptedWorld):
    """Tasks, answers and scripted policies."""

    name = NAME
    habits = HABITS
    experts = EXPERTS
    splits: tuple[Split, ...] = SPLITS
    advice = ADVICE
    remedies: Mapping[str, str] = {"answer": "steps", "steps": "check"}

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self._gym = GymSource(config.gym, config.longest)
        self._router = BlockingRouter(limits=Limits(children=config.children))
        self._memo: dict[tuple[str, str], Outcome] = {}

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """See `tasks.draw_tasks`."""
        tools = (CALCULATOR,) if self.config.calculator else ()
        return draw_tasks(split, n, seed, self.config.chosen(), self._gym, tools)

    def open(self, task: Task) -> ProblemEpisode:
        """A fresh episode."""
        return ProblemEpisode(self, task)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        habit = habit_named(HABITS, strategy)
        return lambda heard: say(task, heard, habit, Random(f"{task.id}:{strategy}:{seed}"))

    def kind(self, message: str) -> str:
        """ "check" (calls, or says that it checks), "steps" (thinks), "answer" (does not), or "malformed"."""
        heard: Heard = hear(message)
        if any(isinstance(call, Malformed) for call in heard.calls):
            return "malformed"
        if heard.calls or "check" in heard.think:
            return "check"
        return "steps" if heard.think else "answer"

    def answer(self, message: str) -> str | None:
        """The answer as it was written."""
        heard = hear(message)
        return None if heard.calls else heard.answer or None

    def forgeries(self, task: Task) -> list[list[str]]:
        """Attempts that must not earn 1: every typical error, several answers at once, words instead of an answer."""
        data = task.data
        wrong = list(dict.fromkeys(data["wrong"].values()))
        several = [f"{data['answer']} or {wrong[0]}", f"Answer: {data['answer']}\nAnswer: {wrong[0]}"]
        return [[said] for said in (*wrong, *several, "the right answer", task.prompt, "")]

    def secrets(self, task: Task) -> list[str]:
        """The answer as a sentence."""
        return [f"answer: {task.data['answer']}", f"= {task.data['answer']}\n"] if task.data["work"] else []

    def graded(self, task: Task, answer: str) -> Outcome:
        """The outcome of an answer; what is known is remembered, since replays ask again."""
        spec = task.data["spec"]
        key = (json.dumps([task.data["type"], spec], sort_keys=True), answer)
        if key not in self._memo:
            found = self._router.grade(Case(task.data["type"], task.prompt, answer, spec))
            if not found.known:
                return found
            if len(self._memo) >= _MAX_MEMO:
                self._memo.clear()
            self._memo[key] = found
        return self._memo[key]

    def close(self) -> None:
        """End the processes that compare answers."""
        self._router.close()


def calc(expression: str) -> str:
    """value of an arithmetic expression"""
    return calculate(expression)


def build(config: Config, sandbox: Sandbox | None) -> ProblemWorld:
    """The world of a config; it needs no sandbox."""
    return ProblemWorld(config)
