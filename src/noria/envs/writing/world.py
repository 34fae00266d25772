"""The world `writing`: one brief, one text, scored by a rubric that knows no order; a model may judge beside it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Literal

from pydantic import Field

from noria.bases.answer import AnswerEpisode, answer_in
from noria.bases.world import ScriptedWorld
from noria.core.config import Checked
from noria.core.protocols import Policy, Sandbox
from noria.core.types import Message, Outcome, Split, Task
from noria.envs.writing import forgeries, gate, habits
from noria.envs.writing.criteria import wording
from noria.envs.writing.drafts import Brief, brief_of
from noria.envs.writing.rubric import Rubric, rubric_of
from noria.envs.writing.tasks import NAME, SPLITS, Admission, draw_tasks, reference
from noria.graders import prose
from noria.graders._chat import JudgeConfig, connected
from noria.graders.base import Case, Given, Judge
from noria.graders.blocking import BlockingRouter
from noria.tokens.calls import parse

ADVICE: Mapping[str, tuple[str, ...]] = {
    "plan": (
        "Name the form and the points, then write.",
        "Say first what the text needs.",
        "Plan the form and every point before you write.",
    ),
    "form": (
        "Give the text the form of its genre.",
        "Mind how such a text begins and ends.",
        "Write it in the form that was asked for.",
    ),
    "points": (
        "Make every point in a sentence of its own.",
        "Leave none of the points out.",
        "Say each thing that was asked, in order.",
    ),
    "hollow": (
        "Write whole sentences that say something.",
        "Words alone are no text: write sentences.",
        "Do not list words, tell it.",
    ),
    "malformed": (
        "Close the think block, then write the text.",
        "There are no tools here: write the text.",
        "End the think block before the text.",
    ),
}


class Config(Checked):
    """Options of the world `writing`."""

    type: Literal["writing"] = "writing"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    reward: Literal["graded", "strict"] = Field(
        default="graded", description="graded: the weighted share of the rubric; strict: 1 if all of it is met, else 0"
    )
    admission: Admission = Field(default_factory=Admission, description="which criteria a task keeps, with what weight")
    rules: prose.Rules = Field(
        default_factory=lambda: prose.Rules(min_words=8, max_words=300), description="what is not judged at all"
    )
    judge: JudgeConfig | None = Field(
        default=None, description="a model that judges beside the rubric; None = the measurable criteria alone"
    )
    judge_by: Literal["rubric", "pairwise"] = Field(
        default="rubric",
        description="rubric: the model scores each criterion; pairwise: it compares with the good text of the task",
    )
    judge_share: float = Field(default=0.5, gt=0, le=1, description="weight of the model's word in the reward")


class WritingEpisode(AnswerEpisode):
    """One brief. The first message ends it; its text is what is graded."""

    wants = "the text"

    def __init__(self, task: Task, config: Config, router: BlockingRouter | None = None) -> None:
        super().__init__()
        self.task, self.config, self.router = task, config, router
        self.brief, self.rubric = brief_of(task.data["brief"]), rubric_of(task.data["rubric"])
        self.graded: Outcome | None = None

    def grade(self) -> Outcome:
        """Parts: one per criterion, and `judge` where a model was asked. Unknown where that one fails."""
        if self.graded is None:
            outcome = self._grade()
            if not outcome.known or not self.answer:
                return outcome
            self.graded = outcome
        return self.graded

    def _grade(self) -> Outcome:
        if not self.answer:
            return Outcome(0.0, dict.fromkeys((one.name for one in self.rubric.criteria), 0.0), self.fault or "no text")
        parts = self.rubric.parts(self.answer, self.brief)
        refused = gate.refused(self.config.rules, self.answer, self.task.prompt)
        if refused:
            return Outcome(0.0, parts, f"not judged: {refused}")
        score = self.rubric.score(parts)
        reason = _reason(self.rubric, parts)
        if self.router is not None:
            found = self.router.grade(_case(self.config, self.task, self.brief, self.rubric, self.answer))
            if found.reward is None:
                return found
            share = self.config.judge_share
            score = 1.0 if score == found.reward == 1 else (1 - share) * score + share * found.reward
            parts |= {"judge": found.reward}
            reason = f"{reason}; the judge: {found.reason}"
        return Outcome(float(score >= 1) if self.config.reward == "strict" else score, parts, reason)

    def fork(self) -> WritingEpisode:
        """An independent copy of the state."""
        return copy(self)


class WritingWorld(ScriptedWorld):
    """Briefs with rubrics (protocol `World`)."""

    name = NAME
    habits, experts, splits = habits.HABITS, habits.EXPERTS, SPLITS
    advice = ADVICE
    remedies: Mapping[str, str] = {"form": "points", "plan": "form"}

    def __init__(self, config: Config, judge: Judge | None = None) -> None:
        super().__init__()
        self.config = config
        self._judge = judge
        self._router = BlockingRouter(Given(judge=judge)) if judge is not None else None

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of "train", "heldout" or "unseen" (a genre that training never shows)."""
        return draw_tasks(split, n, seed, self.config.admission, self.config.rules)

    def open(self, task: Task) -> WritingEpisode:
        """A fresh episode."""
        return WritingEpisode(task, self.config, self._router)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """The scripted habit `strategy`, deterministic in (task, strategy, seed)."""
        return partial(_say, habits.play(task, strategy, seed))

    def kind(self, message: str) -> str:
        """ "malformed", "hollow" (no language), "plan" (thinks of points first), "form" (lines) or "points"."""
        answer = answer_in(message)
        if answer is None:
            return "malformed"
        if gate.refused(self.config.rules, answer, ""):
            return "hollow"
        if "points" in parse(message).think:
            return "plan"
        return "form" if "\n" in answer else "points"

    def forgeries(self, task: Task) -> list[list[str]]:
        """Stuffed, copied, begging and injecting texts (`core.proofs.Guarded`)."""
        return forgeries.forged(task)

    def secrets(self, task: Task) -> list[str]:
        """The good text, which no prompt may hold."""
        return [reference(brief_of(task.data["brief"]), task.data["digest"])]

    def compare(self, task: Task, first: str, second: str) -> float:
        """1 where the first text is the better one by the rubric, 0 where the second is, 0.5 for a tie."""
        scores = []
        for text in (first, second):
            episode = WritingEpisode(task, self.config)
            episode.act(text)
            scores.append(episode.grade().reward or 0.0)
        return 0.5 if scores[0] == scores[1] else float(scores[0] > scores[1])

    def close(self) -> None:
        """End the judge's loop and connections."""
        if self._router is not None:
            self._router.close()
        if self._judge is not None:
            asyncio.run(self._judge.close())


def _reason(rubric: Rubric, parts: Mapping[str, float]) -> str:
    """The heaviest criterion that is not met, or that all are."""
    missed = [one for one in rubric.criteria if parts[one.name] < 1]
    if not missed:
        return "every criterion met"
    worst = max(missed, key=lambda one: (one.weight * (1 - parts[one.name]), one.name))
    return f"missed: {worst.name} ({parts[worst.name]:.2f})"


def _case(config: Config, task: Task, brief: Brief, rubric: Rubric, answer: str) -> Case:
    criteria = [{"name": o.name, "text": wording(o.name, brief), "weight": o.weight} for o in rubric.criteria]
    spec: dict[str, object] = {"criteria": criteria}
    if config.judge_by == "pairwise":
        spec["reference"] = reference(brief, task.data["digest"])
    seed = random.Random(task.id).randrange(2**31)
    return Case(f"writing.{config.judge_by}", task.prompt, answer, spec, seed=seed)


def _say(message: str, _conversation: Sequence[Message]) -> str:
    return message


def build(config: Config, sandbox: Sandbox | None) -> WritingWorld:
    """The world of `config`; the sandbox is not needed.

    Raises:
        UserError: a judge is configured and its key or the package `openai` is missing.
    """
    return WritingWorld(config, connected(config.judge) if config.judge else None)
