"""Instances: what is asked of which accounts, what the accounts hold, and what must hold in the end.

A goal is a plain list, so that it travels as JSON:

    ["move", src, dst, amount]   ["drain", src, dst]   ["target", id, balance]   ["freeze", id]
    ["close", id, heir]          ["limit", id, amount] ["open", id]
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from noria.bases.world import check_split
from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.ledger.service import MAX_AMOUNT, TOOLS, Account

Goal = list[Any]

NAME = "ledger"
SYSTEM = "Do what is asked. Leave all else unchanged."
KINDS: tuple[str, ...] = (
    "move", "drain", "target", "move_freeze", "target_freeze", "close", "limit_move", "open_move",
)  # fmt: skip
#: Combinations of known parts that no training task shows.
UNSEEN_KINDS: tuple[str, ...] = ("drain_freeze", "open_drain")
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")

_LETTERS = "ABCDEHKM"
_FOURTH_ACCOUNT_CHANCE = 0.25
_FROZEN_SOURCE_CHANCE = 0.75
#: One content in this many belongs to the held-out split.
_HELDOUT_ONE_IN = 4
#: Draws for one new task before the space counts as exhausted.
_MAX_DRAWS = 2000

_SENTENCES: Mapping[str, str] = {
    "move": "move {2} from {0} to {1}",
    "drain": "move all from {0} to {1}",
    "target": "bring {0} to {1}",
    "freeze": "freeze {0}",
    "close": "close {0}, its money goes to {1}",
    "limit": "set limit of {0} to {1}",
    "open": "open {0}",
}


def draw_tasks(split: Split, n: int, seed: int, frozen_chance: float) -> list[Task]:
    """`n` distinct tasks of a split, the same for the same arguments; a shorter list is a prefix of a longer.

    Raises:
        UserError: an unknown split, or more tasks than can be found.
    """
    check_split(split, SPLITS)
    rng = random.Random(f"{NAME}:{split}:{seed}")
    kinds = UNSEEN_KINDS if split == "unseen" else KINDS
    tasks: list[Task] = []
    seen: set[str] = set()
    draws = 0
    while len(tasks) < n:
        draws += 1
        if draws > _MAX_DRAWS * n:
            raise UserError(f"tasks must be fewer: got {n}, found {len(tasks)} - ask for fewer tasks")
        task = _draw(rng, split, rng.choice(kinds), frozen_chance)
        if task is not None and task.id not in seen:
            seen.add(task.id)
            tasks.append(task)
    return tasks


def _draw(rng: random.Random, split: Split, kind: str, frozen_chance: float) -> Task | None:
    """One task, or None where the content belongs to another split."""
    accounts, names = _draw_accounts(rng)
    first, second, third = names[:3]
    goals = _draw_goals(rng, kind, accounts, first, second, third)
    if rng.random() < frozen_chance:
        partner = second if accounts[second].status == "open" and "target" not in kind else first
        frozen = first if rng.random() < _FROZEN_SOURCE_CHANCE else partner
        accounts[frozen] = replace(accounts[frozen], status="frozen")
    data = {"kind": kind, "accounts": {k: asdict(v) for k, v in accounts.items()}, "goals": goals}
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    if split != "unseen" and (int(digest[:8], 16) % _HELDOUT_ONE_IN == 0) != (split == "heldout"):
        return None
    return Task(f"{NAME}-{split}-{digest[:10]}", NAME, SYSTEM, prompt(goals), TOOLS, data, split)


def _draw_accounts(rng: random.Random) -> tuple[dict[str, Account], list[str]]:
    """Open accounts in the order of their ids, and the ids in random order."""
    count = 4 if rng.random() < _FOURTH_ACCOUNT_CHANCE else 3
    names = [f"{letter}{rng.randint(1, 9)}" for letter in rng.sample(_LETTERS, count)]
    accounts = {
        name: Account(balance=rng.randint(21, 49), limit=rng.choice((50, 60, 70, 80, 90))) for name in sorted(names)
    }
    return accounts, names


def _draw_goals(
    rng: random.Random, kind: str, accounts: dict[str, Account], first: str, second: str, third: str
) -> list[Goal]:
    """The goals of a kind; adapts the accounts so that the goals can be reached and change something."""
    balance = accounts[first].balance
    # Small enough that doing it twice goes through as well: nothing but the final state shows that slip.
    amount = rng.randint(10, balance // 2)
    target = balance + rng.choice((-20, -10, 10, 20) if balance >= 40 else (-10, 10, 20, 30))
    if kind.startswith("open"):
        accounts[second] = replace(accounts[second], balance=0, status="closed")
    if kind == "limit_move":
        accounts[first] = replace(accounts[first], limit=rng.choice((3, 6, 9)))
    frozen_later = rng.choice((first, second, third))
    goals: Mapping[str, list[Goal]] = {
        "move": [["move", first, second, amount]],
        "drain": [["drain", first, second]],
        "target": [["target", first, target]],
        "move_freeze": [["move", first, second, amount], ["freeze", frozen_later]],
        "target_freeze": [["target", first, target], ["freeze", frozen_later]],
        "close": [["close", first, second]],
        "limit_move": [["limit", first, rng.choice((50, 60, 70, 80, 90))], ["move", first, second, amount]],
        "open_move": [["open", second], ["move", first, second, amount]],
        "drain_freeze": [["drain", first, second], ["freeze", frozen_later]],
        "open_drain": [["open", second], ["drain", first, second]],
    }
    return goals[kind]


def prompt(goals: Sequence[Goal]) -> str:
    """The sentence that asks for the goals."""
    text = ", then ".join(_SENTENCES[goal[0]].format(*goal[1:]) for goal in goals)
    return text[0].upper() + text[1:] + "."


def accounts_of(task: Task) -> dict[str, Account]:
    """The accounts at the start of a task."""
    return {name: Account(**fields) for name, fields in task.data["accounts"].items()}


def named_in(goals: Sequence[Goal]) -> list[str]:
    """Ids that the goals name, each once, in order."""
    return list(dict.fromkeys(part for goal in goals for part in goal[1:] if isinstance(part, str)))


def required(accounts: Mapping[str, Account], goals: Sequence[Goal]) -> dict[str, Account]:
    """The state that must hold at the end: the goals reached, all else as it was."""
    state = dict(accounts)
    for verb, name, *rest in goals:
        account = state[name]
        if verb in ("move", "drain", "close"):
            amount = rest[1] if verb == "move" else account.balance
            state[rest[0]] = replace(state[rest[0]], balance=state[rest[0]].balance + amount)
            status = "closed" if verb == "close" else account.status
            state[name] = replace(account, balance=account.balance - amount, status=status)
        elif verb == "target":
            state[name] = replace(account, balance=rest[0])
        elif verb == "limit":
            state[name] = replace(account, limit=rest[0])
        else:
            state[name] = replace(account, status="frozen" if verb == "freeze" else "open")
    if any(not 0 <= account.balance <= MAX_AMOUNT for account in state.values()):
        raise ValueError(f"goals must be reachable, got {goals} on {accounts}")
    return state
