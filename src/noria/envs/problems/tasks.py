"""Tasks: a template is drawn with parameters; no problem of training is ever held out, whatever the seed.

Splits go by the SHA-256 of the prompt, modulo 4: 0 is held out. Some templates are `unseen`: they are of neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from random import Random

from noria.bases.world import check_split
from noria.core.errors import UserError
from noria.core.types import Split, Task, Tool
from noria.envs.problems import algebra, numbers, science
from noria.envs.problems.gym import GymSource
from noria.envs.problems.problem import Problem, Template

NAME = "problems"
SYSTEM = "Solve the problem. End with the answer alone."
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
TEMPLATES: Mapping[str, Template] = {**algebra.TEMPLATES, **numbers.TEMPLATES, **science.TEMPLATES}
CALCULATOR = Tool("calc", "value of an arithmetic expression", {"expression": ("string", "as 2*(3 + 1/4)")})
_HELDOUT_ONE_IN = 4
#: Draws for one new task before the space counts as used up, and of one template before the next has its turn.
_MAX_DRAWS, _MAX_IN_A_ROW = 200, 60


def is_heldout(text: str) -> bool:
    """Whether a problem is kept for evaluation; never changes."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % _HELDOUT_ONE_IN == 0


def draw_tasks(
    split: Split, n: int, seed: int, templates: Sequence[str], gym: GymSource, tools: tuple[Tool, ...]
) -> list[Task]:
    """`n` distinct tasks of a split, templates and then datasets of the gym in turn; a shorter list is a prefix.

    Raises:
        UserError: an unknown split, nothing to draw from, or more tasks than can be found.
    """
    check_split(split, SPLITS)
    names = [name for name in templates if TEMPLATES[name].unseen == (split == "unseen")]
    sources = names + ([] if split == "unseen" else [f"gym:{name}" for name in gym.datasets])
    if not sources:
        raise UserError(f"templates must leave something for {split}: got {', '.join(templates)} - name more of them")
    rngs = {name: Random(f"{NAME}:{split}:{seed}:{name}") for name in sources}
    found: dict[str, Task] = {}
    turn = failed = 0
    for _ in range(_MAX_DRAWS * (n + 1)):
        if len(found) == n:
            return list(found.values())
        source = sources[turn % len(sources)]
        if source.startswith("gym:"):
            task = gym.draw(source[4:], rngs[source], split, is_heldout)
        else:
            task = _task(source, TEMPLATES[source].draw(rngs[source]), split, tools)
        failed += 1
        if task is not None and task.id not in found:
            found[task.id] = task
            failed = 0
        if failed in (0, _MAX_IN_A_ROW):
            turn, failed = turn + 1, 0
    raise UserError(f"tasks must be fewer: got {n}, found {len(found)} - ask for fewer, or name more templates")


def _task(name: str, problem: Problem | None, split: Split, tools: tuple[Tool, ...]) -> Task | None:
    """The task of a problem; None where it belongs to another split."""
    if problem is None or (split != "unseen" and is_heldout(problem.prompt) != (split == "heldout")):
        return None
    digest = hashlib.sha256(f"{name}:{problem.prompt}".encode()).hexdigest()[:10]
    data = {
        "template": name,
        "subject": TEMPLATES[name].subject,
        "type": problem.type,
        "spec": dict(problem.spec),
        "answer": problem.answer,
        "work": list(problem.work),
        "wrong": dict(problem.wrong),
        "forms": list(problem.forms),
        "check": problem.check if tools else "",
    }
    return Task(f"{NAME}-{split}-{digest}", NAME, SYSTEM, problem.prompt, tools, data, split)
