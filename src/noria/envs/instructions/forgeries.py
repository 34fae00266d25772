"""Answers that keep rules without saying anything, for the proof that none of them pays."""

from __future__ import annotations

import random

from noria.core.types import Task
from noria.envs.instructions import admission, grading, habits
from noria.envs.instructions.judge import Rules
from noria.envs.instructions.lexicon import TOPICS

#: Cyrillic letters that look like Latin ones: a way round a forbidden letter or word.
_ALIKE = str.maketrans("aceopxyi", "асеорхуі")
#: The same letters as wide ones, as East Asian texts have them.
_WIDE = {sign: sign + 0xFEE0 for sign in range(ord("A"), ord("z") + 1) if chr(sign).isalpha()}
_UNSEEN = "\u200b"
_PADDING = 12


def attempts(task: Task, rules: Rules) -> list[str]:
    """Messages of one episode each; none may score 1."""
    gold = admission.reference(task, rules) or ""
    topic, constraints = TOPICS[task.data["topic"]], admission.constraints_of(task)
    rng = random.Random(f"forged:{task.id}")
    noise = " ".join(rng.choice("bcdfghkl") * rng.randint(3, 6) for _ in range(_PADDING))
    forged = [
        task.prompt,
        f"{task.prompt} {task.prompt}",
        " ".join([topic.name] * _PADDING) + ".",
        f"{topic.name} " * 2 + noise,
        f"<think>{gold}</think>",
        f"<think>{habits.needs(constraints)}</think>I kept all rules about the answer.",
        " ".join([gold] * 4),
        _UNSEEN.join(gold),
        "true",
        "{}",
    ]
    if grading.script_of(constraints) == "Latin":
        forged += [gold.translate(_ALIKE), gold.translate(_WIDE)]
    return [text for text in forged if text != gold]
