"""Tasks of made domains: an instance, a goal, its words, and the tools that are shown.

Splits go by content: a domain whose schema's hash says so is of the split `unseen`, whatever seed made it; a task of
another domain is `heldout` or `train` by the hash of its own content.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from noria.core.errors import UserError
from noria.core.types import Split, Task, Tool
from noria.envs.tooluse.goals import Dropped, Goal, draw_goal
from noria.envs.tooluse.instances import draw_state
from noria.envs.tooluse.phrases import SYSTEM, SYSTEM_ASK, Phrase, phrases_of, sentence
from noria.envs.tooluse.sample import draw_domain
from noria.envs.tooluse.search import Move
from noria.envs.tooluse.spec import Domain, State
from noria.envs.tooluse.typing_rules import faults_in

NAME = "tooluse"
SUBMIT, ASK = "submit", "ask"
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
_SUBMIT = Tool(SUBMIT, "end the work")
_ASK = Tool(ASK, "ask the user for what is not said", {"about": ("string", "what you need to know")})
#: One domain in this many is unseen, one task in this many held out.
_UNSEEN_ONE_IN, _HELDOUT_ONE_IN = 5, 4
#: Draws for one new task before the domains count as exhausted.
_MAX_DRAWS = 200
#: Candidates looked at for one domain.
_MAX_CANDIDATES = 40


@dataclass(frozen=True, slots=True)
class Knobs:
    """How large a task may be; see the fields of `Config`."""

    rows: int = 3
    least: int = 2
    most: int = 4
    asks: int = 3
    tools_shown: int = 10
    ask_share: float = 0.2
    budget: int = 500
    most_fields: int = 16
    hidden_share: float = 0.8


def is_unseen(domain: Domain) -> bool:
    """Whether a domain is kept from training."""
    return int(domain.schema[:8], 16) % _UNSEEN_ONE_IN == 0


@lru_cache(maxsize=64)
def sampled_domains(seed: int, count: int, unseen: bool, most_fields: int) -> tuple[Domain, ...]:
    """The first `count` sound domains of a seed on one side of the split, none twice.

    Raises:
        UserError: too few were found.
    """
    found: dict[str, Domain] = {}
    for number in range(_MAX_CANDIDATES * count + 200):
        domain = draw_domain(seed, number)
        small = sum(len(table.fields) for table in domain.tables) <= most_fields
        if small and is_unseen(domain) == unseen and not faults_in(domain):
            found.setdefault(domain.shape, domain)
            if len(found) == count:
                return tuple(found.values())
    raise UserError(f"domains must be fewer: got {count}, found {len(found)} - lower it, or raise fields")


def domain_named(name: str) -> Domain:
    """The sampled domain of a name such as `library-0-17`.

    Raises:
        UserError: there is none.
    """
    parts = name.rsplit("-", 2)
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        domain = draw_domain(int(parts[1]), int(parts[2]))
        if domain.name == name:
            return domain
    raise UserError(f"domain must be one that this version makes: got {name!r} - draw the tasks anew")


def draw_tasks(domains: Sequence[Domain], split: Split, n: int, seed: int, knobs: Knobs) -> list[Task]:
    """`n` distinct tasks of a split, spread over the domains; a shorter list is a prefix of a longer.

    Raises:
        UserError: more tasks than can be found.
    """
    tasks: list[Task] = []
    seen: set[str] = set()
    for draw in range(_MAX_DRAWS * n + 1000):
        if len(tasks) == n:
            return tasks
        domain = domains[draw % len(domains)]
        rng = random.Random(f"{NAME}:{split}:{seed}:{domain.name}:{draw}")
        try:
            task = draw_task(domain, rng, split, knobs)
        except Dropped:
            continue
        if task is not None and task.id not in seen:
            seen.add(task.id)
            tasks.append(task)
    raise UserError(f"tasks must be fewer: got {n}, found {len(tasks)} - ask for fewer tasks or more domains")


def draw_task(domain: Domain, rng: random.Random, split: Split, knobs: Knobs) -> Task | None:
    """One task; None where its content is of another split.

    Raises:
        Dropped: this draw led to no goal.
    """
    start = draw_state(domain, rng, knobs.rows)
    if start is None:
        raise Dropped("no sound initial state")
    content = hashlib.sha256(json.dumps([domain.schema, start], sort_keys=True).encode()).hexdigest()
    if split != "unseen" and (int(content[:8], 16) % _HELDOUT_ONE_IN == 0) != (split == "heldout"):
        return None  # decided by the initial state alone: before the search, and no state is in two splits
    goal = draw_goal(
        domain, start, rng, least=knobs.least, most=knobs.most, asks=knobs.asks, budget=knobs.budget,
        hidden=knobs.hidden_share,
    )  # fmt: skip
    return task_of(domain, goal, rng, split, knobs)


def task_of(domain: Domain, goal: Goal, rng: random.Random, split: Split, knobs: Knobs) -> Task:
    """The task that asks for a goal."""
    phrases = phrases_of(domain, goal, rng)
    hidden: Phrase | None = None
    if rng.random() < knobs.ask_share:
        hidden = rng.choice([phrase for phrase in phrases if phrase.veiled] or [None])
    data: dict[str, Any] = {
        "domain": domain.name,
        "start": goal.start,
        "target": goal.target,
        "gold": [[move.name, dict(move.args)] for move in goal.ways[0]],
        "length": goal.length,
        "paths": goal.paths,
        "packs": max((phrase.packs for phrase in phrases), default=0),
        "details": {hidden.topic: hidden.detail} if hidden else {},
    }
    prompt = sentence(phrases, hidden)
    digest = hashlib.sha256(json.dumps([prompt, data], sort_keys=True).encode()).hexdigest()
    tools = _tools(domain, goal, rng, knobs.tools_shown, hidden is not None)
    system = SYSTEM_ASK if hidden else SYSTEM
    return Task(f"{NAME}-{split}-{digest[:10]}", NAME, system, prompt, tools, data, split)


def gold_of(task: Task) -> tuple[Move, ...]:
    """The calls of a shortest way."""
    return tuple(Move(name, tuple(args.items())) for name, args in task.data["gold"])


def start_of(task: Task) -> State:
    """The initial state of a task, to be copied before it is changed."""
    state: State = task.data["start"]
    return state


def _tools(domain: Domain, goal: Goal, rng: random.Random, shown: int, ask: bool) -> tuple[Tool, ...]:
    """The tools of a task: those of every shortest way, a list and a read of each table they touch, and others."""
    needed = {move.name for way in goal.ways[:4] for move in way}
    tables = {param.table for name in needed for param in domain.operation[name].params if param.table}
    needed |= {op.name for op in domain.operations if op.kind in ("list", "get") and op.table in tables}
    others = [op.name for op in domain.operations if op.name not in needed]
    needed |= set(rng.sample(others, min(len(others), max(0, shown - len(needed)))))
    tools = [tool for name, tool in domain.tools.items() if name in needed]
    return (*tools, *((_ASK,) if ask else ()), _SUBMIT)
