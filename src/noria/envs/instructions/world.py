"""The world itself: prompts with rules that can be counted, one message of an answer, and its grade."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import islice
from typing import Literal

from pydantic import Field, field_validator, model_validator

from noria.bases.answer import AnswerEpisode
from noria.bases.world import ScriptedWorld, habit_named
from noria.core.config import Checked
from noria.core.errors import EngineError, PolicyError
from noria.core.protocols import Policy, Sandbox
from noria.core.registry import nearest
from noria.core.types import Message, Outcome, Split, Task
from noria.envs.instructions import admission, forgeries, grading, habits, model_judge
from noria.envs.instructions.judge import Rules, fluency, prose, said
from noria.envs.instructions.kinds import all_kinds
from noria.envs.instructions.model_judge import Judge, JudgeConfig
from noria.tokens.calls import parse

#: More than these do not fit into one short answer.
MAX_CONSTRAINTS = 6
DOCS = "docs/worlds/instructions.md"
ADVICE: Mapping[str, tuple[str, ...]] = {
    "blind": (
        "Name every rule before you write.",
        "Read the rules first, then write.",
        "Do not write before you know all rules.",
    ),
    "plan": (
        "Say in your thought what each rule needs.",
        "List all rules in your thought, then answer.",
        "Think of each rule, leave none out.",
    ),
    "check": (
        "Check each rule on a first try, then mend it.",
        "Count again what a rule counts before you answer.",
        "Try, check each rule, and mend what is wrong.",
    ),
    "hollow": (
        "Write real sentences about the topic.",
        "Do not say one word again and again.",
        "Answer in sentences that make sense.",
    ),
    "malformed": (
        "Close the think block, then write the answer.",
        "After the think block write the answer.",
        "End the think block before the answer.",
    ),
}


class Config(Checked):
    """Options of the world `instructions`."""

    type: Literal["instructions"] = "instructions"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    constraints: tuple[int, int] = Field(default=(1, 2), description="fewest and most constraints of a task")
    kinds: tuple[str, ...] = Field(
        default=(), description="kinds of constraints to draw from, see the world's page; () = all"
    )
    max_plain: float = Field(
        default=0.5, ge=0, le=1, description="refuse constraints that more than this share of plain answers keeps"
    )
    grade: Literal["strict", "loose"] = Field(
        default="strict", description="loose = first line, last line and stars of the answer may go"
    )
    reward: Literal["all", "share"] = Field(
        default="all", description="all = 1 iff every constraint is kept; share = the share of those kept"
    )
    rules: Rules = Field(default_factory=Rules, description="what makes an answer degenerate")
    judge: JudgeConfig | None = Field(
        default=None, description="a model that judges what the rules let pass; None = the rules alone"
    )

    @field_validator("constraints")
    @classmethod
    def _is_range(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= value[0] <= value[1] <= MAX_CONSTRAINTS:
            raise ValueError(
                f"constraints must be two numbers from 1 to {MAX_CONSTRAINTS}, the smaller first: got {list(value)} - "
                "write for instance [1, 2]"
            )
        return value

    @field_validator("kinds")
    @classmethod
    def _are_kinds(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in all_kinds():
                raise ValueError(f"kinds must be known: got {name!r}{nearest(name, list(all_kinds()))} - see {DOCS}")
        if len(set(value)) != len(value):
            raise ValueError(f"kinds must be distinct: got {list(value)} - name each once")
        return value

    @model_validator(mode="after")
    def _enough_kinds(self) -> Config:
        if self.kinds and len(self.kinds) < self.constraints[0]:
            raise ValueError(
                f"kinds must be as many as the fewest constraints: got {len(self.kinds)} for {self.constraints[0]} - "
                "name more kinds or lower constraints"
            )
        return self

    def space(self) -> admission.Space:
        """What tasks are drawn from."""
        return admission.Space(self.kinds or tuple(all_kinds()), *self.constraints, self.max_plain, self.rules)


class InstructionsEpisode(AnswerEpisode):
    """One prompt. The first message ends it; its answer is what is graded."""

    def __init__(self, task: Task, config: Config, judge: Judge | None = None) -> None:
        super().__init__()
        self.task, self.config, self.judge = task, config, judge
        self.graded: Outcome | None = None

    def grade(self) -> Outcome:
        """Parts: one per constraint (strict), `strict`, `loose`, `fluent`, and `judge` where a model was asked.

        Unknown where the model judge fails; it is asked again when this is called again.
        """
        if self.graded is None:
            outcome = self._grade()
            if not outcome.known or not self.answer:
                return outcome
            self.graded = outcome
        return self.graded

    def _grade(self) -> Outcome:
        if not self.answer:
            return Outcome(0.0, {"strict": 0.0, "loose": 0.0, "fluent": 0.0}, self.fault or "no answer")
        constraints = admission.constraints_of(self.task)
        found = grading.report(constraints, self.answer, self.task.prompt, self.task.data["topic"], self.config.rules)
        held = found.strict if self.config.grade == "strict" else found.loose
        parts = {one.kind.name: float(kept) for one, kept in zip(constraints, found.strict, strict=True)}
        parts |= {
            "strict": float(all(found.strict)),
            "loose": float(all(found.loose)),
            "fluent": float(not found.fault),
        }
        if found.fault:
            return Outcome(0.0, parts, f"degenerate: {found.fault}")
        if not all(held):
            missed = next(one for one, kept in zip(constraints, held, strict=True) if not kept)
            share = sum(held) / len(held) if self.config.reward == "share" else 0.0
            return Outcome(share, parts, f"missed: {missed.note()}")
        if self.judge is None:
            return Outcome(1.0, parts, "every rule kept")
        try:
            accepted = self.judge.accepts(self.task.prompt, self.answer)
        except EngineError as fault:
            return Outcome.unknown(f"the judge failed: {fault}")
        reason = "every rule kept" if accepted else "the judge says no"
        return Outcome(float(accepted), parts | {"judge": float(accepted)}, reason)

    def fork(self) -> InstructionsEpisode:
        """An independent copy of the state."""
        return copy(self)


class InstructionsWorld(ScriptedWorld):
    """Prompts with rules that can be counted (protocol `World`)."""

    name = admission.NAME
    habits, experts, splits = habits.HABITS, ("careful", "direct"), admission.SPLITS
    advice = ADVICE
    remedies: Mapping[str, str] = {"blind": "plan", "plan": "check"}

    def __init__(self, config: Config, model: Judge | None = None) -> None:
        super().__init__()
        self.config = config
        self._judge = model

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks. UserError: unknown split, or too many tasks for the options."""
        return list(islice(self.stream(split, seed), n))

    def stream(self, split: Split, seed: int, tally: admission.Tally | None = None) -> Iterator[Task]:
        """The same tasks one by one and without end, in constant memory; `tally` counts what is refused and why."""
        return admission.stream(self.config.space(), split, seed, tally)

    def open(self, task: Task) -> InstructionsEpisode:
        return InstructionsEpisode(task, self.config, self._judge)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """The scripted habit `strategy`, deterministic in (task, strategy, seed)."""
        habit_named(habits.HABITS, strategy)
        return partial(_say, habits.play(task, strategy, seed, self.config.rules))

    def reference(self, task: Task) -> list[str]:
        """The gold solution: one message, the answer that the task was admitted with."""
        text = admission.reference(task, self.config.rules)
        assert text is not None, f"{task.id} was admitted without a reference"
        return [f"<think>{habits.needs(admission.constraints_of(task))}</think>{text}"]

    def kind(self, message: str) -> str:
        """ "malformed", "hollow" (no language), "blind" (names no rule), "check" (checks a try) or "plan"."""
        try:
            parsed = parse(message)
        except PolicyError:
            return "malformed"
        if parsed.calls or not parsed.answer:
            return "malformed"
        text = prose(parsed.answer)
        if fluency(self.config.rules, said(text), text):
            return "hollow"
        if "need" not in parsed.think.split():
            return "blind"
        return "check" if "check" in parsed.think.split() else "plan"

    def forgeries(self, task: Task) -> list[list[str]]:
        """Answers that keep rules without saying anything (`core.proofs.Guarded`)."""
        return [[text] for text in forgeries.attempts(task, self.config.rules)]

    def secrets(self, task: Task) -> list[str]:
        """The reference answer, which no prompt may hold."""
        return [admission.reference(task, self.config.rules) or ""]

    def close(self) -> None:
        """Close the judge's connections."""
        if self._judge is not None:
            self._judge.close()


def _say(message: str, _conversation: Sequence[Message]) -> str:
    return message


def build(config: Config, sandbox: Sandbox | None) -> InstructionsWorld:
    """The world of `config`; the sandbox is not needed.

    Raises:
        UserError: a judge is configured and its key or the package `openai` is missing.
    """
    return InstructionsWorld(config, model_judge.build(config.judge) if config.judge else None)
