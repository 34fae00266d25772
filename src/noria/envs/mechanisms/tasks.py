"""Tasks: a mechanism is sampled, solved, and kept if its solution is worth finding.

Splits go by the parameters: the SHA-256 of them, modulo 4; `unseen` is a family of its own.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from noria.bases.world import check_split
from noria.core.errors import UserError
from noria.core.types import Split, Task, Tool
from noria.envs.mechanisms import auction, chase, haggle, load, queue, stock
from noria.envs.mechanisms.model import Mechanism, Solved, State

NAME = "mechanisms"
SYSTEM = "Learn the numbers, then decide step by step."
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
LOOK = Tool("look", "where things stand")
STOP = Tool("stop", "give up the rest")
_HELDOUT_ONE_IN = 4
#: Draws for one new task before the space counts as exhausted, and in one family before the next has its turn.
_MAX_DRAWS, _MAX_IN_A_ROW = 150, 60
#: The chance that greed makes no mistake on a tricky task is at most this.
_TRICKY_MOST = Fraction(1, 4)


class Family(NamedTuple):
    """How a family is sampled, what it is, and how it is asked for."""

    draw: Callable[[random.Random], dict[str, Any]]
    kind: type[Mechanism]
    prompts: tuple[str, ...]


FAMILIES: Mapping[str, Family] = {
    "stock": Family(stock.draw, stock.Stock, stock.PROMPTS),
    "auction": Family(auction.draw, auction.Auction, auction.PROMPTS),
    "haggle": Family(haggle.draw, haggle.Haggle, haggle.PROMPTS),
    "load": Family(load.draw, load.Load, load.PROMPTS),
    "chase": Family(chase.draw, chase.Chase, chase.PROMPTS),
    "queue": Family(queue.draw, queue.Queue, queue.PROMPTS),
}
UNSEEN_FAMILIES = ("queue",)


class Knobs(NamedTuple):
    """What drawing needs; see the fields of `Config`."""

    lucky_most: float = 0.2
    tricky_share: float = 0.7
    revealed_share: float = 0.0


def solved_of(task: Task) -> Solved:
    """The solved mechanism of a task: transitions and score both come from this one object."""
    return _solve(task.data["family"], json.dumps(task.data["params"], sort_keys=True))


@lru_cache(maxsize=1024)
def _solve(family: str, params: str) -> Solved:
    return Solved(FAMILIES[family].kind(json.loads(params)))


def draw_tasks(split: Split, n: int, seed: int, knobs: Knobs) -> list[Task]:
    """`n` distinct tasks of a split, families in turn; a shorter list is a prefix of a longer.

    Raises:
        UserError: an unknown split, or more tasks than can be found.
    """
    check_split(split, SPLITS)
    rng = random.Random(f"{NAME}:{split}:{seed}")
    families = [name for name in FAMILIES if (name in UNSEEN_FAMILIES) == (split == "unseen")]
    tasks: list[Task] = []
    seen: set[str] = set()
    turn = failed = 0
    tricky = rng.random() < knobs.tricky_share
    for _ in range(_MAX_DRAWS * (n + 1)):
        if len(tasks) == n:
            return tasks
        task = _draw(rng, split, families[turn % len(families)], knobs, tricky)
        failed += 1
        if task is not None and task.id not in seen:
            seen.add(task.id)
            tasks.append(task)
            failed = 0
        if failed in (0, _MAX_IN_A_ROW):
            turn, failed, tricky = turn + 1, 0, rng.random() < knobs.tricky_share
    raise UserError(f"tasks must be fewer: got {n}, found {len(tasks)} - ask for fewer, or raise lucky_most")


def _draw(rng: random.Random, split: Split, name: str, knobs: Knobs, tricky: bool) -> Task | None:
    """One task; None where it belongs to another split, or its solution is too easily hit."""
    family = FAMILIES[name]
    params = family.draw(rng)
    prompt, revealed = rng.choice(family.prompts).format(**params), rng.random() < knobs.revealed_share
    text = json.dumps(params, sort_keys=True)
    digest = hashlib.sha256(f"{name}:{text}".encode()).hexdigest()
    if split != "unseen" and (int(digest[:8], 16) % _HELDOUT_ONE_IN == 0) != (split == "heldout"):
        return None
    solved = _solve(name, text)
    start = solved.mechanism.start
    if solved.random(start) == solved.best(start) or solved.lucky(start) > knobs.lucky_most:
        return None
    if tricky and greedy_luck(solved) > _TRICKY_MOST:
        return None
    if revealed:
        prompt += " " + "; ".join(told(solved.mechanism)) + "."
    tools = (*solved.mechanism.probes, LOOK, solved.mechanism.act, STOP)
    return Task(f"{NAME}-{split}-{digest[:10]}", NAME, SYSTEM, prompt, tools, {"family": name, "params": params}, split)


def told(mechanism: Mechanism) -> list[str]:
    """All parameters in words: what every probe would say."""
    return [mechanism.probe(name, number) for name, number in questions(mechanism)]


def questions(mechanism: Mechanism) -> list[tuple[str, int]]:
    """Every probe with every number that it takes."""
    found: list[tuple[str, int]] = []
    for tool in mechanism.probes:
        numbers = range(1, 10) if tool.parameters else range(1)
        found += [(tool.name, n) for n in numbers if not mechanism.probe(tool.name, n).startswith("error:")]
    return found


def greedy_luck(solved: Solved) -> Fraction:
    """The chance that greed makes no mistake on its way."""

    def chance(state: State) -> Fraction:
        if not mechanism.actions(state):
            return Fraction(1)
        action = mechanism.greedy(state)
        if solved.gap(state, action):
            return Fraction(0)
        return sum((p * chance(after) for p, _, after in mechanism.results(state, action)), Fraction(0))

    mechanism = solved.mechanism
    return chance(mechanism.start)
