"""Problems and scorer of reasoning-gym, filtered to what a very small model can compute.

reasoning-gym takes seconds to import, so it is imported on first use only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import cycle
from typing import Any, Literal

from noria.core.errors import UserError
from noria.core.types import Split, Task

Dataset = Literal["chain_sum", "leg_counting"]
SPLITS: tuple[Split, ...] = ("train", "heldout")
SYSTEM = "Answer with one number."

#: Draws in a row that may bring nothing new before the problem space counts as used up.
_MAX_MISSES = 20_000
_HELDOUT_OF = 5


def stream(name: Dataset, options: Mapping[str, int], max_total: int, split: Split, seed: int) -> Iterator[Task]:
    """Endless distinct tasks of one dataset and split; a pure function of the arguments.

    Raises:
        UserError: the options leave too few problems for what is asked.
    """
    start = int(hashlib.sha256(f"{name}:{split}:{seed}".encode()).hexdigest()[:12], 16)
    gym = _dataset(name, start, tuple(sorted(options.items())))
    seen: set[str] = set()
    at = misses = 0
    while misses < _MAX_MISSES:
        entry = gym[at]
        at += 1
        task = _task(name, entry, max_total, split)
        if task is None or task.prompt in seen:
            misses += 1
            continue
        misses = 0
        seen.add(task.prompt)
        yield task
    raise UserError(
        f"tasks must fit the problem space: {name} ran out after {len(seen)} {split} tasks, expected more - "
        "ask for fewer tasks or widen max_terms, max_digits, max_animals, max_count or max_total"
    )


def in_turn(streams: Sequence[Iterator[Task]]) -> Iterator[Task]:
    """One task of each stream after the other, for ever."""
    for one in cycle(streams):
        yield next(one)


def full_marks(data: Mapping[str, Any], answer: str) -> bool:
    """Whether the gym's own scorer gives `answer` 1.0 for the problem in `data`."""
    entry = {key: data[key] for key in ("question", "answer", "metadata")}
    return float(_scorer(data["dataset"]).score_answer(answer, entry)) >= 1.0


def _task(name: Dataset, entry: Mapping[str, Any], max_total: int, split: Split) -> Task | None:
    """The task of a gym entry; None if it is in the other split or its totals leave 0..max_total."""
    question = entry["question"]
    digest = hashlib.sha256(question.encode()).hexdigest()
    if (int(digest, 16) % _HELDOUT_OF == 0) != (split == "heldout"):
        return None
    # What depends on the draw and not on the problem is left out: one problem is one task, whatever the seed.
    metadata = {k: v for k, v in entry["metadata"].items() if k not in ("difficulty", "source_index")}
    names: list[str] = []
    if name == "chain_sum":
        expression = metadata["expression"].replace(" ", "")
        terms = _sum_terms(metadata["expression"])
        prompt = f"Compute {expression}"
    else:
        legs = _legs()
        names = list(metadata["animals"])
        terms = [[1, count, legs[animal]] for animal, count in metadata["animals"].items()]
        prompt = f"Count legs: {_animals(question)}"
    if not _within(terms, max_total):
        return None
    data = {
        "dataset": name,
        "question": question,
        "answer": entry["answer"],
        "metadata": metadata,
        "terms": terms,
        "names": names,
    }
    return Task(f"arithmetic-{split}-{digest[:10]}", "arithmetic", SYSTEM, prompt, (), data, split)


def _sum_terms(expression: str) -> list[list[int]]:
    """Terms [sign, number] of "12 + 34 - 5"."""
    words = expression.split()
    signs = ["+", *words[1::2]]
    return [[1 if sign == "+" else -1, int(word)] for sign, word in zip(signs, words[::2], strict=True)]


def _animals(question: str) -> str:
    """The list "2 dogs, 1 ant" as the gym words it."""
    return question.rpartition("if you have ")[2].rstrip("?\n")


def _within(terms: list[list[int]], max_total: int) -> bool:
    total = 0
    for sign, number, *each in terms:
        total += sign * number * (each[0] if each else 1)
        if not 0 <= total <= max_total:
            return False
    return True


def _legs() -> Mapping[str, int]:
    return dict(import_module("reasoning_gym.arithmetic.leg_counting").ANIMALS)


@cache
def _scorer(name: str) -> Any:
    return _dataset(name, 0, ())


def _dataset(name: str, seed: int, options: tuple[tuple[str, int], ...]) -> Any:
    return import_module("reasoning_gym").create_dataset(name, seed=seed, **dict(options))
