"""Tasks over a corpus of one's own: its questions as tasks, and policies that read the evidence named with them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from noria.bases.world import check_split, habit_named
from noria.core.errors import UserError
from noria.core.protocols import Policy
from noria.core.types import Message, Split, Task
from noria.envs.deepsearch.admission import NAME, SPLITS, SYSTEM
from noria.envs.deepsearch.belief import believe
from noria.envs.deepsearch.corpus import ANSWER, BROWSE, SEARCH, TOOLS
from noria.envs.deepsearch.habits import HABITS, UNKNOWN
from noria.tokens.calls import render_call

#: One question in this many is held out, unless its line says where it belongs.
_HELDOUT_ONE_IN = 4


def draw_own(rows: Sequence[Mapping[str, Any]], split: Split, n: int, seed: int) -> list[Task]:
    """`n` distinct questions of a split in an order that the seed settles.

    Raises:
        UserError: an unknown split, or fewer questions than asked for.
    """
    check_split(split, SPLITS)
    tasks = {task.id: task for task in map(_task, rows) if task.split == split}
    if len(tasks) < n:
        raise UserError(
            f"questions must be at least {n} of the split {split}: got {len(tasks)} - add some, or ask for less"
        )
    return random.Random(f"own:{split}:{seed}").sample(list(tasks.values()), len(tasks))[:n]


def _task(row: Mapping[str, Any]) -> Task:
    data = {
        "own": True,
        "answers": [row["answer"], *row.get("aliases", ())],
        "unit": "",
        "evidence": list(row.get("evidence", ())),
    }
    digest = hashlib.sha256(json.dumps([row["question"], data]).encode()).hexdigest()
    split: Split = row.get("split") or ("heldout" if int(digest[:8], 16) % _HELDOUT_ONE_IN == 0 else "train")
    return Task(f"{NAME}-own-{digest[:10]}", NAME, SYSTEM, row["question"], TOOLS, data, split)


def own_policy(task: Task, strategy: str, seed: int) -> Policy:
    """Right habits search, read the evidence and answer; wrong ones answer with the title of a first hit, or guess.

    Raises:
        UserError: an unknown strategy.
    """
    habit, evidence = habit_named(HABITS, strategy), list(task.data["evidence"])
    if habit.way.meet:
        evidence.reverse()

    def say(messages: Sequence[Message]) -> str:
        said = [message.content for message in messages if message.role == "assistant"]
        if habit.slip == "guess":
            return render_call(ANSWER, text=UNKNOWN)
        if not said:
            return f"<think>{habit.think}</think>" + render_call(SEARCH, query=task.prompt)
        if not habit.right:
            hits = believe(messages).first_hits
            return render_call(ANSWER, text=hits[0].title if hits else UNKNOWN)
        unread = [call for call in (render_call(BROWSE, page=id_) for id_ in evidence) if call not in "".join(said)]
        return "".join(unread[: habit.batch]) or render_call(ANSWER, text=task.data["answers"][0])

    return say
