"""Tasks: one job, or several with a trap, drawn so that no content stands in two splits."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from typing import Any

from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.claw.bench import schemas
from noria.envs.claw.families import FAMILIES, UNSEEN
from noria.envs.claw.job import Job, Step
from noria.envs.claw.mixing import TRAPS, mix

NAME = "claw"
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
EASY, HARD = "easy", "mixed-hard"
SYSTEM = "Work on the files with the tools; when all is done, end with a short answer."
#: One content in this many belongs to the held-out split.
_HELDOUT_ONE_IN = 4
_MAX_DRAWS = 200


def draw_tasks(
    split: Split, n: int, seed: int, hard_share: float, shell_share: float, jobs: tuple[int, int], only: Sequence[str]
) -> list[Task]:
    """`n` distinct tasks of a split; a shorter list is a prefix of a longer.

    Raises:
        UserError: an unknown split, no family left in it, or more tasks than can be found.
    """
    if split not in SPLITS:
        raise UserError(f"split must be one of {', '.join(SPLITS)}: got {split!r} - choose one of them")
    names = [name for name in only or FAMILIES if (name in UNSEEN) == (split == "unseen")]
    if not names:
        raise UserError(
            f"families must hold one of the split {split}: got {', '.join(only)} - "
            f"unseen are {', '.join(sorted(UNSEEN))}, all others are trained and held out"
        )
    rng = random.Random(f"{NAME}:{split}:{seed}")
    found: dict[str, Task] = {}
    for _ in range(_MAX_DRAWS * n + 1000):
        if len(found) >= n:
            break
        task = _draw(rng, split, names, hard_share, shell_share, jobs)
        if task is not None:
            found.setdefault(task.id, task)
    if len(found) < n:
        raise UserError(f"tasks must be fewer: got {n}, found {len(found)} - ask for fewer tasks")
    return list(found.values())


def _draw(
    rng: random.Random, split: Split, names: Sequence[str], hard_share: float, shell_share: float, jobs: tuple[int, int]
) -> Task | None:
    """One task; None where its content is of another split."""
    level = HARD if rng.random() < hard_share else EASY
    harness = "shell" if rng.random() < shell_share else "full"
    count = rng.randint(*jobs) if level == HARD else 1
    chosen = [rng.choice(names)] if level == EASY else _several(rng, names, count)
    made = [FAMILIES[name](rng) for name in chosen]
    data: dict[str, Any] = {"level": level, "harness": harness, "families": chosen}
    if level == EASY:
        job, parts = made[0], tuple(made)
        prompt = job.ask
        data |= {"files": dict(job.files), "checks": list(job.checks), "trap": "", "first": [], "last": [], "lure": []}
    else:
        trap = rng.choice(TRAPS)
        found = mix(made, trap, rng)
        prompt, parts = found.ask, found.jobs
        files = {path: text for job in parts for path, text in job.files.items()} | found.files
        data |= {"files": files, "checks": list(found.checks), "trap": trap}
        data |= {"first": _plain(found.first), "last": _plain(found.last), "lure": _plain(found.lure)}
    data["databases"] = {path: script for job in parts for path, script in job.databases.items()}
    data["parts"] = [_part(job) for job in parts]
    digest = _digest([prompt, data])
    content = _digest([prompt, data["files"], data["databases"]])
    if split != "unseen" and (int(content[:8], 16) % _HELDOUT_ONE_IN == 0) != (split == "heldout"):
        return None
    return Task(f"{NAME}-{split}-{digest[:10]}", NAME, SYSTEM, prompt, schemas(harness), data, split)


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _several(rng: random.Random, names: Sequence[str], count: int) -> list[str]:
    """Different families where there are enough, else some twice."""
    return rng.sample(names, count) if len(names) >= count else [rng.choice(names) for _ in range(count)]


def _part(job: Job) -> dict[str, Any]:
    """What policies know of a job."""
    return {
        "look": _plain(job.look), "shell": _plain(job.shell), "code": job.code, "slip": _plain(job.slip),
        "made": list(job.made), "answer": job.answer,
    }  # fmt: skip


def _plain(steps: Sequence[Step]) -> list[list[Any]]:
    return [[name, args] for name, args in steps]
