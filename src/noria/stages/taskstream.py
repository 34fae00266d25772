"""Tasks of any world as a stream: drawn in chunks, each kept or dropped for a reason, written as they come.

    world.tasks(split, 256, seed of the chunk) ─► id seen? ─► content seen? ─► near duplicate? ─► refused? ─► file

A chunk has a seed of its own, so the stream goes on at any chunk without what came before. It is a pure function of
the world and `Wanted` but for `n`: a longer stream begins with the shorter one. The first chunk is what
`world.tasks(split, 256, seed)` gives.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from noria.core import shingles
from noria.core.codec import to_json
from noria.core.errors import UserError
from noria.core.minhash import Hashed, MinHash
from noria.core.near import ExactIndex, NearIndex
from noria.core.protocols import World
from noria.core.seeds import derive
from noria.core.types import Split, Task
from noria.stages.growing import Growing

CHUNK = 256
#: Chunks in a row of which nothing is kept, after which the world counts as used up.
DRY = 20
REASONS = ("same id", "same content", "near duplicate", "refused")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to draw.

    world         its name, and what else tells it from others of the type
    n             tasks to keep
    near          likeness from which on a task is a near duplicate of a kept one; None = all are kept
    compared      what is compared: the prompt alone, or with it the values of the task's data
    shingle       words of a shingle
    permutations  bytes of a signature
    proved        whether tasks are played before they are kept
    """

    world: str
    split: Split
    seed: int
    n: int
    near: float | None = None
    compared: Literal["content", "prompt"] = "content"
    shingle: int = 3
    permutations: int = 128
    proved: bool = False

    def settings(self) -> dict[str, Any]:
        """All that the stream depends on."""
        return {name: value for name, value in asdict(self).items() if name != "n"}


class Sieve:
    """Which tasks are new; it holds what was kept, in scratch files of `folder`."""

    def __init__(self, wanted: Wanted, folder: Path | None = None) -> None:
        self._wanted = wanted
        self._exact = ExactIndex(2 * wanted.n, folder)
        self._near: NearIndex | None = None
        self._latest: tuple[Task, Hashed] | None = None
        if wanted.near is not None:
            self._hasher = MinHash(wanted.near, wanted.permutations)
            self._near = NearIndex(self._hasher, wanted.n, folder)

    def reason(self, task: Task) -> str:
        """Why a task is not new, "" where it is."""
        if _key(task.id) in self._exact:
            return "same id"
        if _key(_content(task)) in self._exact:
            return "same content"
        return "near duplicate" if self._near is not None and self._near.nearest(self._hashed(task)) else ""

    def add(self, task: Task) -> None:
        """Note a kept task."""
        self._exact.add(_key(task.id))
        self._exact.add(_key(_content(task)))
        if self._near is not None:
            self._near.add(self._hashed(task))

    def _hashed(self, task: Task) -> Hashed:
        if self._latest is None or self._latest[0] is not task:  # a task that is kept is asked for twice
            text = compared(task, self._wanted.compared)
            self._latest = task, self._hasher(shingles.of_text(text, self._wanted.shingle))
        return self._latest[1]


def compared(task: Task, what: Literal["content", "prompt"]) -> str:
    """The text of a task that likeness is about."""
    return task.prompt if what == "prompt" else "\n".join([task.prompt, *shingles.leaves(task.data)])


def grow(
    world: World, path: Path, wanted: Wanted,
    check: Callable[[Task], str] = lambda task: "", advance: Callable[[int], None] = lambda kept: None,
) -> dict[str, Any]:  # fmt: skip
    """Write the stream into a file, or go on with one that a killed process left; the report of what was dropped.

    `check` says why a new task is refused, "" where it is not; `advance` hears how many are kept.

    Raises:
        UserError: the file is another's, or the world cannot draw a single task.
    """
    sieve = Sieve(wanted, path.resolve().parent)
    with Growing(path, wanted.settings()) as file:
        state: dict[str, Any] = {"chunk": 0, "at": 0, "kept": 0, "drawn": 0, "dry": 0, "dropped": {}} | file.state
        dropped: Counter[str] = Counter(state["dropped"])
        for task in file.tasks() if state["kept"] < wanted.n else ():
            sieve.add(task)
        while state["kept"] < wanted.n and state["dry"] < DRY:
            before = state["kept"]
            for task in _chunk(world, wanted, state["chunk"])[state["at"] :]:
                state["at"], state["drawn"] = state["at"] + 1, state["drawn"] + 1
                reason = sieve.reason(task) or ("refused" if check(task) else "")
                if reason:
                    dropped[reason] += 1
                    continue
                file.add(task)
                sieve.add(task)
                state["kept"] += 1
                advance(state["kept"])
                if state["kept"] == wanted.n:
                    break
            else:
                state["chunk"], state["at"] = state["chunk"] + 1, 0
            state["dry"] = 0 if state["kept"] > before else state["dry"] + 1
            file.commit(state | {"dropped": dict(dropped)}, state["kept"] == wanted.n)
    return {
        "tasks": state["kept"], "file": str(path), "drawn": state["drawn"],
        "dropped": {reason: dropped[reason] for reason in REASONS}, "used_up": state["kept"] < wanted.n,
    }  # fmt: skip


def chunks(world: World, wanted: Wanted) -> Iterator[Task]:
    """The raw stream before anything is dropped, without end."""
    number = 0
    while True:
        yield from _chunk(world, wanted, number)
        number += 1


def _chunk(world: World, wanted: Wanted, number: int) -> list[Task]:
    """Tasks of a chunk; fewer where the world holds fewer. Raises UserError where it has none."""
    seed, size = wanted.seed if number == 0 else derive(wanted.seed, "chunk", number), CHUNK
    while True:
        try:
            return world.tasks(wanted.split, size, seed)
        except UserError:
            if size == 1:
                raise
            size = max(1, size // 4)


def _content(task: Task) -> str:
    """What a task is, whatever its id."""
    return json.dumps([task.prompt, to_json(task.data)], sort_keys=True)


def _key(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
