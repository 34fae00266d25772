"""Composition: constraints are drawn together, and only a task that is possible and asks for something is admitted.

    draw ─► the split's? ─► new? ─► conflict? ─► redundant? ─► vacuous? ─► build a reference, check it, judge it ─► task

Each refusal is counted by its reason. A task is a pure function of its content: topic and constraints. Order, wording
and reference are drawn from the content's digest, so one content is one task whatever the seed.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.instructions import conflicts, grading
from noria.envs.instructions.drafts import Draft
from noria.envs.instructions.grammar import LAYERS, Constraint, Kind
from noria.envs.instructions.judge import Rules
from noria.envs.instructions.kinds import all_kinds
from noria.envs.instructions.lexicon import TOPICS, Topic
from noria.envs.instructions.pens import Pen, StuckError

NAME = "instructions"
SYSTEM = "Keep every rule."
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
REFUSALS = ("conflict", "redundant", "vacuous", "unbuilt", "other split", "seen")

_OPENERS = ("Write about the {0}.", "Tell me about the {0}.", "Say something about the {0}.")
_HELDOUT_OF = 5
#: Plain answers that a constraint is tried on.
_PLAIN = 16
_RESTARTS, _ROUNDS = 3, 5
#: Draws in a row without a new task before the space counts as used up.
_MAX_MISSES = 5_000
_FILTER_BYTES, _FILTER_HASHES = 1 << 20, 4


@dataclass(frozen=True, slots=True)
class Space:
    """What tasks are drawn from: kinds by name, how many constraints, and which are too easy to ask for.

    max_plain   a constraint that more than this share of plain answers keeps is refused as vacuous
    """

    kinds: tuple[str, ...]
    fewest: int
    most: int
    max_plain: float
    rules: Rules


@dataclass(slots=True)
class Tally:
    """How many compositions were drawn, admitted, and refused by reason."""

    drawn: int = 0
    admitted: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def share(self, *reasons: str) -> float:
        """Share refused for these reasons among the drawn that are new and the split's own."""
        judged = self.drawn - self.refused["other split"] - self.refused["seen"]
        return sum(self.refused[reason] for reason in reasons) / max(1, judged)


class Seen:
    """Which contents were drawn: a Bloom filter, so memory does not grow. One in 200,000 new ones is taken for old at
    100,000 tasks, one in 50 at a million."""

    def __init__(self) -> None:
        self._bits = bytearray(_FILTER_BYTES)

    def add(self, digest: str) -> bool:
        """Note a content; False where it was noted before."""
        new = False
        for at in range(_FILTER_HASHES):
            where = int(digest[8 * at : 8 * at + 8], 16) % (8 * _FILTER_BYTES)
            byte, bit = divmod(where, 8)
            new |= not self._bits[byte] >> bit & 1
            self._bits[byte] |= 1 << bit
        return new


def stream(space: Space, split: Split, seed: int, tally: Tally | None = None) -> Iterator[Task]:
    """Endless distinct tasks of a split in constant memory; a pure function of space, split and seed.

    Raises:
        UserError: unknown split, no kind for it, or the space holds too few tasks.
    """
    if split not in SPLITS:
        raise UserError(f"split must be one of {list(SPLITS)}: got {split!r} - choose one of them")
    known = [all_kinds()[name] for name in space.kinds if not all_kinds()[name].unseen]
    kept = [all_kinds()[name] for name in space.kinds if all_kinds()[name].unseen]
    if not (kept if split == "unseen" else known):
        raise UserError(f"kinds must hold one for the split {split}: got {list(space.kinds)} - name more kinds")
    rng = random.Random(f"{NAME}:{split}:{seed}")
    tally, seen, misses = tally or Tally(), Seen(), 0
    while misses < _MAX_MISSES:
        misses += 1
        tally.drawn += 1
        topic, constraints = _draw(rng, space, known, kept, split)
        digest = digest_of(topic, constraints)
        if split != "unseen" and (int(digest[-8:], 16) % _HELDOUT_OF == 0) != (split == "heldout"):
            reason = "other split"
        else:
            reason = refusal(constraints, topic, space.max_plain) if seen.add(digest) else "seen"
        task = None if reason else _task(topic, constraints, digest, split)
        if task and reference(task, space.rules) is None:
            reason = "unbuilt"
        if reason or task is None:
            tally.refused[reason] += 1
            continue
        tally.admitted += 1
        misses = 0
        yield task
    raise UserError(
        f"tasks must fit the space: {tally.admitted} {split} tasks were found, more are asked for - ask for fewer, "
        "name more kinds, or raise the second number of constraints"
    )


def refusal(constraints: Sequence[Constraint], topic: Topic, max_plain: float) -> str:
    """Why a composition is refused before anything is built, "" where it is not."""
    if conflicts.conflict(constraints):
        return "conflict"
    if conflicts.redundant(constraints):
        return "redundant"
    if any(plain_share(one, topic) > max_plain for one in constraints):
        return "vacuous"
    return ""


def plain_share(constraint: Constraint, topic: Topic) -> float:
    """Share of plain answers about the topic that keep the constraint."""
    texts = _plain_texts(topic.name)
    return sum(map(constraint.holds, texts)) / len(texts)


def digest_of(topic: Topic, constraints: Sequence[Constraint]) -> str:
    """SHA-256 of the content, whatever the order of the constraints."""
    content = [topic.name, sorted(json.dumps(one.to_json(), sort_keys=True) for one in constraints)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def build(constraints: Sequence[Constraint], topic: Topic, rng: random.Random) -> Draft | None:
    """A draft that keeps all constraints, None where none was found."""
    pen = Pen(rng)
    ordered = sorted(constraints, key=lambda one: LAYERS.index(one.kind.layer))
    for _ in range(_RESTARTS):
        try:
            draft = pen.plain(topic)
            if mended(pen, draft, ordered):
                return draft
        except StuckError:
            continue
    return None


def mended(pen: Pen, draft: Draft, ordered: Sequence[Constraint]) -> bool:
    """Mend what is broken, a few rounds long; whether all holds then. StuckError where an edit cannot be made."""
    for _ in range(_ROUNDS):
        text, kept = draft.render(), True
        for one in ordered:
            if not one.holds(text):
                one.kind.mend(pen, draft, one.values)
                text, kept = draft.render(), False
        if kept:
            return True
    return all(one.holds(text) for one in ordered)


def written(task: Task, rules: Rules, rng: random.Random) -> str | None:
    """A right answer to a task, None where this attempt gave none."""
    constraints = constraints_of(task)
    draft = build(constraints, TOPICS[task.data["topic"]], rng)
    if draft is None:
        return None
    text = draft.render()
    found = grading.report(constraints, text, task.prompt, task.data["topic"], rules)
    return text if all(found.strict) and not found.fault else None


def reference(task: Task, rules: Rules) -> str | None:
    """The right answer that the task was admitted with; None where it may not be admitted."""
    return written(task, rules, random.Random(f"reference:{task.id}"))


def constraints_of(task: Task) -> list[Constraint]:
    """The constraints of a task, in the order of its prompt."""
    return [Constraint(all_kinds()[name], values) for name, values in task.data["constraints"]]


def _task(topic: Topic, constraints: Sequence[Constraint], digest: str, split: Split) -> Task:
    rng = random.Random(digest)
    ordered = sorted(constraints, key=lambda one: one.kind.name)
    rng.shuffle(ordered)
    asked = [rng.choice(_OPENERS).format(topic.name), *(one.wording(rng) for one in ordered)]
    data = {"topic": topic.name, "constraints": [one.to_json() for one in ordered]}
    return Task(f"{NAME}-{split}-{digest[:12]}", NAME, SYSTEM, " ".join(asked), (), data, split)


def _draw(
    rng: random.Random, space: Space, known: Sequence[Kind], kept: Sequence[Kind], split: Split
) -> tuple[Topic, list[Constraint]]:
    topic = rng.choice(list(TOPICS.values()))
    count = rng.randint(space.fewest, space.most)
    first = [rng.choice(kept)] if split == "unseen" else []
    pool = [kind for kind in (*known, *(kept if split == "unseen" else ())) if kind not in first]
    chosen = [*first, *rng.sample(pool, min(count - len(first), len(pool)))]
    return topic, [Constraint(kind, kind.draw(rng, topic)) for kind in chosen]


@lru_cache(maxsize=64)
def _plain_texts(topic: str) -> tuple[str, ...]:
    return tuple(Pen(random.Random(f"plain:{topic}:{at}")).plain(TOPICS[topic]).render() for at in range(_PLAIN))
