"""reasoning-gym's datasets as problems, each graded by its own scorer.

reasoning-gym takes seconds to import, so it is imported on first use only. Of its datasets, those in `REFUSED` are left
out; any other that is installed can be named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

from noria.core.errors import UserError
from noria.core.registry import nearest
from noria.core.types import Split, Task

_BY_HASH = "draws differently in every process: it walks through sets of texts"
#: Datasets that cannot be used here, and why.
REFUSED: Mapping[str, str] = {
    "arc_agi": "grades what JSON does not keep",
    "boxnet": "tells no solution",
    "composite": "is put together of others: name these",
    "graph_color": "tells no solution",
    "isomorphic_strings": _BY_HASH,
    "knight_swap": "searches for a time, and draws what it finds in it",
    "polynomial_multiplication": _BY_HASH,
    "propositional_logic": "tells no solution",
    "ransom_note": _BY_HASH,
    "rearc": "grades what JSON does not keep",
    "rubiks_cube": "tells no solution",
    "rush_hour": "tells no solution",
    "word_ladder": _BY_HASH,
}
#: What is left of an entry that depends on the draw and not on the problem.
_OF_THE_DRAW = ("difficulty", "source_index")
_SEEDS = 2**31


class GymSource:
    """Draws entries of some datasets.

    Raises:
        UserError: a dataset is unknown, or refused.
    """

    def __init__(self, datasets: Sequence[str], longest: int) -> None:
        self.datasets, self._longest = tuple(datasets), longest
        for name in self.datasets:
            if name in REFUSED:
                raise UserError(f"gym must name datasets that can be used: got {name!r}, which {REFUSED[name]}")
        if self.datasets:
            known = sorted(_gym().DATASETS)
            for name in self.datasets:
                if name not in known:
                    raise UserError(
                        f"gym must name datasets of reasoning-gym: got {name!r}{nearest(name, known)} - see "
                        "docs/worlds/problems.md"
                    )

    def draw(self, name: str, rng: Random, split: Split, is_heldout: Callable[[str], bool]) -> Task | None:
        """The task of one entry; None where it is of the other split, too long, or without an answer."""
        entry = _dataset(name, rng.randrange(_SEEDS))[0]
        question, answer = str(entry["question"]), entry["answer"]
        if answer is None or len(question) > self._longest or is_heldout(question) != (split == "heldout"):
            return None
        # The entry as JSON: what a trajectory keeps of it is what is graded.
        kept = {key: value for key, value in entry["metadata"].items() if key not in _OF_THE_DRAW}
        plain = json.loads(json.dumps({"question": question, "answer": str(answer), "metadata": kept}))
        digest = hashlib.sha256(f"gym:{name}:{question}".encode()).hexdigest()[:10]
        data = {
            "template": f"gym:{name}",
            "subject": "gym",
            "type": "reasoning.gym",
            "spec": {"dataset": name, "entry": plain},
            "answer": str(answer),
            "work": [],
            "wrong": _wrong(str(answer)),
            "forms": [],
            "check": "",
        }
        return Task(f"problems-{split}-{digest}", "problems", "Solve the problem.", question, (), data, split)


def usable() -> list[str]:
    """Names of the datasets that are installed and not refused."""
    return sorted(set(_gym().DATASETS) - set(REFUSED))


def _wrong(answer: str) -> dict[str, str]:
    """Answers that are no solution: a neighbour of a number, a part, another text."""
    try:
        return {"slip": str(int(answer) + 1), "skip": str(int(answer) + 10)}
    except ValueError:
        return {"slip": answer[: len(answer) // 2] or "?", "skip": "unknown"}


@cache
def _gym() -> Any:
    import_module("reasoning_gym")
    return import_module("reasoning_gym.factory")


def _dataset(name: str, seed: int) -> Any:
    return _gym().create_dataset(name, seed=seed, size=1)
