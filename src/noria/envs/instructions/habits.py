"""Scripted ways of following instructions: right ones, and the sloppy ones a weak model has.

A right thought names the triplets (`need words = 7; first now.`), and may try a draft and check it
(`try … check words = 7: 9 no. mend`) before the answer is mended and written. Every message is deterministic in
(task, strategy, seed).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from noria.core.types import Task
from noria.envs.instructions import admission
from noria.envs.instructions.grammar import LAYERS, Constraint
from noria.envs.instructions.judge import Rules
from noria.envs.instructions.lexicon import TOPICS, Topic
from noria.envs.instructions.pens import Pen, StuckError

Work = Literal["right", "ignore", "plain", "spoil", "copy", "repeat", "empty", "stray"]
Thought = Literal["none", "need", "try", "check", "nod"]

_TRIES = 4
_REPEATED = 8
_MAX_REPEATED = 30


@dataclass(frozen=True, slots=True)
class Habit:
    """One way of working.

    weight      share of the habit in the mixture
    work        "right"; "ignore" forgets one constraint; "plain" heeds none; "spoil" is off by one, or misses one
                otherwise; "copy" says the prompt again; "repeat" one word; "empty" nothing; "stray" another topic
    thought     "need" names the constraints; "try" also checks a first draft and mends it; "check" checks what is
                answered; "nod" claims that a draft is right without a look
    advice      for a right habit, the kind of advice that it obeys
    """

    weight: float
    work: Work = "right"
    thought: Thought = "need"
    advice: str | None = None


HABITS: dict[str, Habit] = {
    "direct": Habit(0.09, advice="plan"),
    "careful": Habit(0.08, thought="try", advice="check"),
    "verify": Habit(0.07, thought="check", advice="check"),
    "bare": Habit(0.06, thought="none", advice="hollow"),
    "ignore": Habit(0.15, "ignore"),
    "plain": Habit(0.12, "plain", "none"),
    "off_by_one": Habit(0.15, "spoil"),
    "nod": Habit(0.12, "plain", "nod"),
    "copy": Habit(0.04, "copy", "none"),
    "repeat": Habit(0.05, "repeat", "none"),
    "empty": Habit(0.03, "empty"),
    "stray": Habit(0.04, "stray"),
}


def play(task: Task, strategy: str, seed: int, rules: Rules) -> str:
    """The whole assistant message of a habit."""
    habit = HABITS[strategy]
    rng = random.Random(f"{task.id}:{strategy}:{seed}")
    constraints, topic = admission.constraints_of(task), TOPICS[task.data["topic"]]
    answer = _worked(habit.work, task, constraints, topic, rules, rng)
    thought = _thought(habit, task, constraints, topic, answer, rng)
    return f"<think>{thought}</think>{answer}" if thought else answer


def right_answer(task: Task, rules: Rules, rng: random.Random) -> str:
    """An answer that keeps every constraint; the reference where a few attempts bring none."""
    for _ in range(_TRIES):
        text = admission.written(task, rules, rng)
        if text is not None:
            return text
    text = admission.reference(task, rules)
    assert text is not None, f"{task.id} was admitted without a reference"
    return text


def broken(constraints: Sequence[Constraint], topic: Topic, rng: random.Random) -> str:
    """An answer that keeps all constraints but one, which it misses by one where it counts; else a plain one."""
    wanted = rng.choice(constraints)
    others = [one for one in constraints if one is not wanted]
    pen = Pen(rng)
    for _ in range(_TRIES):
        try:
            draft = admission.build(constraints, topic, rng) or pen.plain(topic)
            wanted.kind.spoil(pen, draft, wanted.values)
        except StuckError:
            continue
        text = draft.render()
        if not wanted.holds(text) and all(one.holds(text) for one in others):
            return text
    return plain(constraints, topic, rng)


def forgetful(constraints: Sequence[Constraint], topic: Topic, rng: random.Random) -> tuple[str, Constraint]:
    """An answer that keeps all constraints but one that nobody thought of, and that one."""
    forgotten = rng.choice(constraints)
    others = [one for one in constraints if one is not forgotten]
    for _ in range(_TRIES):
        draft = admission.build(others, topic, rng)
        if draft and not forgotten.holds(draft.render()):
            return draft.render(), forgotten
    return plain(constraints, topic, rng), forgotten


def plain(constraints: Sequence[Constraint], topic: Topic, rng: random.Random) -> str:
    """An answer to the topic alone."""
    pen = Pen(rng)
    texts = [pen.plain(topic).render() for _ in range(_TRIES)]
    missing = [text for text in texts if not all(one.holds(text) for one in constraints)]
    return missing[0] if missing else texts[0]


def checks(constraints: Sequence[Constraint], text: str) -> str:
    """Each constraint with what is found: `words = 7: 9 no, first now ok`."""
    return ", ".join(f"{one.note()}{_found(one, text)} {'ok' if one.holds(text) else 'no'}" for one in constraints)


def needs(constraints: Sequence[Constraint]) -> str:
    """The triplets in short, as a thought names them."""
    return f"need {'; '.join(one.note() for one in constraints)}."


def _found(constraint: Constraint, text: str) -> str:
    return f": {constraint.kind.measure(text, constraint.values)}" if constraint.kind.facet else ""


def _worked(
    work: Work, task: Task, constraints: list[Constraint], topic: Topic, rules: Rules, rng: random.Random
) -> str:  # fmt: skip
    if work == "right":
        return right_answer(task, rules, rng)
    if work == "ignore":
        return forgetful(constraints, topic, rng)[0]
    if work == "spoil":
        return broken(constraints, topic, rng)
    if work == "copy":
        return task.prompt
    if work == "repeat":
        asked = max((one.claims().get("words", (0.0, 0.0))[0] for one in constraints), default=0.0)
        return " ".join([topic.name] * int(min(asked or _REPEATED, _MAX_REPEATED))) + "."
    if work == "stray":
        other = rng.choice([one for name, one in TOPICS.items() if name != topic.name])
        draft = admission.build(constraints, other, rng)
        return draft.render() if draft else Pen(rng).plain(other).render()
    return plain(constraints, topic, rng) if work == "plain" else ""


def _thought(
    habit: Habit, task: Task, constraints: list[Constraint], topic: Topic, answer: str, rng: random.Random
) -> str:  # fmt: skip
    if habit.thought == "none":
        return ""
    if habit.work == "ignore":
        heeded = [one for one in constraints if one.holds(answer)]
        return needs(heeded) if heeded else f"about {topic.name}."
    if habit.thought == "nod":
        return f"about {topic.name}. all ok"
    text = needs(constraints)
    if habit.thought == "check":
        return f"{text} try {answer} check {checks(constraints, answer)}"
    if habit.thought == "try":
        first = _first_draft(constraints, topic, rng)
        wrong = not all(one.holds(first) for one in constraints)
        return f"{text} try {first} check {checks(constraints, first)}{'. mend' if wrong else ''}"
    return text


def _first_draft(constraints: list[Constraint], topic: Topic, rng: random.Random) -> str:
    """What a writer has who has mended only what comes first."""
    ordered = sorted(constraints, key=lambda one: LAYERS.index(one.kind.layer))
    for _ in range(_TRIES if len(ordered) > 1 else 0):
        draft = admission.build(ordered[:-1], topic, rng)
        if draft and not ordered[-1].holds(draft.render()):
            return draft.render()
    return plain(constraints, topic, rng)
