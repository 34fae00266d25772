"""Scripted ways of writing: right ones, and the ways in which drafts fall short.

A right thought names the genre and what it needs (`letter: form, 3 points, tone`). Every message is deterministic in
(task, strategy, seed).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from noria.bases.world import habit_named
from noria.core.types import Task
from noria.envs.writing.drafts import Brief, brief_of
from noria.envs.writing.genres import GENRES

_VAGUE = (
    "There is something to tell. It is about this and that, and it has been so for some time. Some of it is as it "
    "should be, and some of it is not."
)
_FILLER = (
    "Much more could be told about all of this.", "One day may come when more is known of it.",
    "Nobody can tell what else there was to see.", "Still it is nice to think about such things.",
    "Every word of it has its own small place.", "Some will agree, and others may not.",
    "Whatever comes of it, the sun will rise.", "Old and young talk of it in the street.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Habit:
    """One way of writing. `advice` is the kind whose advice a right habit obeys, None for a wrong habit."""

    weight: float
    write: Callable[[Brief, random.Random], str]
    thinks: bool = False
    advice: str | None = None


def play(task: Task, strategy: str, seed: int) -> str:
    """The whole assistant message of a habit. Raises UserError: an unknown strategy."""
    habit, brief = habit_named(HABITS, strategy), brief_of(task.data["brief"])
    text = habit.write(brief, random.Random(f"{task.id}:{strategy}:{seed}"))
    return f"<think>{plan(brief)}</think>{text}" if habit.thinks else text


def plan(brief: Brief) -> str:
    """What a thought names before the writing begins."""
    tone = ", tone" if GENRES[brief.genre].tone[0] else ""
    return f"{brief.genre}: form, {len(brief.points)} points{tone}, {brief.least} to {brief.most}"


def right(brief: Brief, rng: random.Random) -> str:
    """A good text."""
    return GENRES[brief.genre].write(brief.slots, rng).render()


def forgetful(brief: Brief, rng: random.Random) -> str:
    """A good text that leaves one of the points out."""
    return GENRES[brief.genre].write(brief.slots, rng).without(rng.randrange(len(brief.points))).render()


def thin(brief: Brief, rng: random.Random) -> str:
    """The first sentence or two, and no form."""
    return GENRES[brief.genre].write(brief.slots, rng).first(rng.choice((1, 2))).render()


def flat(brief: Brief, rng: random.Random) -> str:
    """Every point, in a form that is no genre's."""
    return " ".join(f"I want to say {point.ask}." for point in brief.points)


def vague(brief: Brief, rng: random.Random) -> str:
    """Words about nothing."""
    return _VAGUE


def sloppy(brief: Brief, rng: random.Random) -> str:
    """A good text without capitals and marks."""
    return re.sub(r"[.,!?:]", "", right(brief, rng)).lower()


def rambling(brief: Brief, rng: random.Random) -> str:
    """A good text that does not come to its end."""
    return "\n".join([right(brief, rng), " ".join(rng.sample(_FILLER, len(_FILLER)))])


def stuffed(brief: Brief, rng: random.Random) -> str:
    """The words that are looked for, and no sentence."""
    return ", ".join(word for point in brief.points for word in point.need) + "."


def copied(brief: Brief, rng: random.Random) -> str:
    """What was asked for, said again."""
    return prompt(brief)


def prompt(brief: Brief) -> str:
    """What is asked for, in words."""
    genre = GENRES[brief.genre]
    asks = [point.ask for point in brief.points]
    said = f"Say {', '.join(asks[:-1])}, and {asks[-1]}."
    parts = (genre.opening.format(**brief.slots), said, genre.tone[0], f"Use {brief.least} to {brief.most} words.")
    return " ".join(filter(None, parts))


HABITS: Mapping[str, Habit] = {
    "careful": Habit(0.12, right, thinks=True, advice="plan"),
    "direct": Habit(0.10, right, advice="form"),
    "steady": Habit(0.08, right, thinks=True, advice="points"),
    "forgetful": Habit(0.20, forgetful, thinks=True),
    "thin": Habit(0.12, thin),
    "flat": Habit(0.12, flat),
    "sloppy": Habit(0.08, sloppy),
    "rambling": Habit(0.06, rambling),
    "vague": Habit(0.06, vague),
    "stuffed": Habit(0.03, stuffed),
    "copied": Habit(0.03, copied),
}
EXPERTS = ("careful", "direct")
#: What a bad text looks like, for admission: each misses something else.
BAD = (thin, flat, sloppy, rambling, vague, stuffed)
