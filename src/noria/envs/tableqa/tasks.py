"""Tasks: tables and a question, drawn so that no content stands in two splits."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence

from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.tableqa.desk import schemas
from noria.envs.tableqa.questions import TEMPLATES, UNSEEN, Question
from noria.envs.tableqa.themes import Tables, draw_tables

NAME = "tableqa"
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
SYSTEM = "Look the answer up in the tables, then give it alone."
_HELDOUT_ONE_IN = 4
_MAX_DRAWS = 200


def draw_tasks(split: Split, n: int, seed: int, rows: tuple[int, int], only: Sequence[str]) -> list[Task]:
    """`n` distinct tasks of a split; a shorter list is a prefix of a longer.

    Raises:
        UserError: an unknown split, no template left in it, or more tasks than can be found.
    """
    if split not in SPLITS:
        raise UserError(f"split must be one of {', '.join(SPLITS)}: got {split!r} - choose one of them")
    names = [name for name in only or TEMPLATES if (name in UNSEEN) == (split == "unseen")]
    if not names:
        raise UserError(
            f"templates must hold one of the split {split}: got {', '.join(only)} - "
            f"unseen are {', '.join(sorted(UNSEEN))}, all others are trained and held out"
        )
    rng = random.Random(f"{NAME}:{split}:{seed}")
    found: dict[str, Task] = {}
    for _ in range(_MAX_DRAWS * n + 1000):
        if len(found) >= n:
            break
        tables, name = draw_tables(rng, *rows), rng.choice(names)
        question = TEMPLATES[name](tables, rng)
        task = None if question is None else _task(tables, name, question, split)
        if task is not None:
            found.setdefault(task.id, task)
    if len(found) < n:
        raise UserError(f"tasks must be fewer: got {n}, found {len(found)} - ask for fewer tasks")
    return list(found.values())


def _task(tables: Tables, name: str, question: Question, split: Split) -> Task | None:
    """The task; None where its content is of another split."""
    theme = tables.theme
    prompt = f"Tables: {theme.main}, {theme.other}. {question.words}"
    data = {
        "template": name, "tables": tables.data(), "answer": list(question.answer), "form": question.form,
        "off": question.off, "facts": list(question.facts), "steps": [[tool, args] for tool, args in question.steps],
        "query": question.query, "slip": question.slip,
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps([prompt, data["tables"]], sort_keys=True).encode()).hexdigest()
    if split != "unseen" and (int(digest[:8], 16) % _HELDOUT_ONE_IN == 0) != (split == "heldout"):
        return None
    return Task(f"{NAME}-{split}-{digest[:10]}", NAME, SYSTEM, prompt, schemas(), data, split)
