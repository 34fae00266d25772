"""Keeps tasks that are new: no exact or near duplicates, nothing of evaluation sets, not too many of one function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from noria.core.errors import UserError
from noria.core.minhash import MinHash
from noria.core.near import NearIndex
from noria.core.shingles import of_text

#: Likeness of changed code and statement from which two tasks are the same, and tokens of a shingle.
THRESHOLD, SIZE = 0.9, 4


class Curation:
    """Decides about proven tasks in their order. `capacity` tasks at most are compared."""

    def __init__(self, capacity: int, per_target: int, evaluation: Iterable[str] = ()) -> None:
        """`evaluation`: texts of tasks that must not come back."""
        self._per_target = per_target
        self._targets: Counter[tuple[str, str]] = Counter()
        self._exact: set[str] = set()
        texts = list(evaluation)
        self._near = NearIndex(MinHash(THRESHOLD), capacity + len(texts))
        self._held = len(texts)
        for text in texts:
            self._near.add(self._near.hasher(of_text(text, SIZE, "code")))

    def crowded(self, repo: str, target: str) -> bool:
        """Whether the function has all the tasks that one may have: it need not be tried again."""
        return self._targets[repo, target] >= self._per_target

    def refuse(self, repo: str, target: str, patch: str, statement: str) -> str:
        """Why a task is not kept; "" keeps it, and it is known from then on."""
        if self.crowded(repo, target):
            return "enough bugs in this function"
        code = "\n".join(line for line in patch.split("\n") if not line.startswith("@@"))
        if code in self._exact:
            return "exact duplicate"
        hashed = self._near.hasher(of_text(f"{code}\n{statement}", SIZE, "code"))
        match = self._near.nearest(hashed)
        if match is not None:
            return "like a task of an evaluation set" if match.number < self._held else "near duplicate"
        self._exact.add(code)
        self._near.add(hashed)
        self._targets[repo, target] += 1
        return ""


def read_evaluation(paths: Iterable[Path]) -> list[str]:
    """Texts of evaluation sets: each line of a file is one. Raises UserError: a file cannot be read."""
    texts: list[str] = []
    for path in paths:
        try:
            texts += [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
        except (OSError, UnicodeDecodeError) as fault:
            raise UserError(f"--decontaminate must name text files: {path}: {fault} - one task a line") from fault
    return texts
