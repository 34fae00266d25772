"""Tasks: a brief drawn by its genre, with the rubric that was found to separate its good text from bad ones."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from pydantic import Field

from noria.bases.world import check_split
from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.writing import habits
from noria.envs.writing.drafts import Brief
from noria.envs.writing.gate import refused
from noria.envs.writing.genres import GENRES, UNSEEN
from noria.envs.writing.rubric import Rubric, Weights, admitted
from noria.graders import prose
from noria.graders.prose import words

NAME = "writing"
SYSTEM = "Write what is asked, in the form of its genre."
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
#: One brief in this many belongs to the held-out split.
_HELDOUT_ONE_IN = 4
#: Draws for one new task before the space counts as exhausted.
_MAX_DRAWS = 200
_MARGIN_WORDS = (4, 9)
#: A rubric with fewer says too little.
_LEAST_CRITERIA = 6


class Admission(Checked):
    """Which criteria and tasks are let in."""

    weights: Weights = Field(default_factory=Weights, description="of criteria by level")
    min_gap: float = Field(
        default=0.1, gt=0, le=1, description="by how much bad texts must miss a criterion on average for it to be kept"
    )


def draw_tasks(split: Split, n: int, seed: int, admission: Admission, rules: prose.Rules) -> list[Task]:
    """`n` distinct tasks; a shorter list is a prefix of a longer. UserError: an unknown split, or too many."""
    tasks = list(islice(stream(split, seed, admission, rules, _MAX_DRAWS * n + 1000), n))
    if len(tasks) < n:
        raise UserError(f"tasks must be fewer: got {n}, found {len(tasks)} - ask for fewer tasks")
    return tasks


def stream(
    split: Split, seed: int, admission: Admission, rules: prose.Rules, draws: int, tally: Counter[str] | None = None
) -> Iterator[Task]:
    """Tasks one by one; `tally` counts criteria and tasks that were left out, by reason."""
    check_split(split, SPLITS)
    rng = random.Random(f"{NAME}:{split}:{seed}")
    genres = [name for name in GENRES if (name in UNSEEN) == (split == "unseen")]
    seen: set[str] = set()
    for _ in range(draws):
        brief = _draw(rng, rng.choice(genres))
        digest = hashlib.sha256(json.dumps([brief.genre, brief.slots], sort_keys=True).encode()).hexdigest()
        held_out = int(digest[:8], 16) % _HELDOUT_ONE_IN == 0
        if digest in seen or (split != "unseen" and held_out != (split == "heldout")):
            continue
        seen.add(digest)
        rubric = rubric_for(brief, digest, admission, tally)
        good = reference(brief, digest)
        fault = refused(rules, good, habits.prompt(brief))
        if fault or len(rubric.criteria) < _LEAST_CRITERIA:
            if tally is not None:
                tally[f"task refused: {fault or 'too few criteria'}"] += 1
            continue
        data = {"brief": brief.data(), "rubric": rubric.data(), "digest": digest}
        yield Task(f"{NAME}-{split}-{digest[:10]}", NAME, SYSTEM, habits.prompt(brief), (), data, split)


def reference(brief: Brief, digest: str) -> str:
    """The good text that a task was admitted with."""
    return habits.right(brief, random.Random(f"good:{digest}"))


def bad_texts(brief: Brief, digest: str) -> list[str]:
    """The bad texts that a task was admitted with."""
    return [write(brief, random.Random(f"bad:{digest}:{k}")) for k, write in enumerate(habits.BAD)]


def rubric_for(brief: Brief, digest: str, admission: Admission, tally: Counter[str] | None = None) -> Rubric:
    """The criteria of a brief that separate its good text from its bad ones."""
    return admitted(
        brief, reference(brief, digest), bad_texts(brief, digest), admission.weights, admission.min_gap, tally
    )


def _draw(rng: random.Random, name: str) -> Brief:
    """A brief whose bounds hold every good text of it."""
    genre = GENRES[name]
    slots = genre.draw(rng)
    lengths = [len(words(genre.write(slots, random.Random(k)).render())) for k in range(6)]
    below, above = rng.randint(*_MARGIN_WORDS), rng.randint(*_MARGIN_WORDS)
    return Brief(name, slots, genre.points(slots), min(lengths) - below, max(lengths) + above)
