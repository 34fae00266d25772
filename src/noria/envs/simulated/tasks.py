"""Tasks: a state of a domain, one to three things asked for, and a question that the final state answers.

A drawn task is kept if rules and plans bring it about in both ways. Splits go by the SHA-256 of a task's content,
modulo 4; `unseen` are domains of their own.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from noria.bases.world import check_split
from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.simulated.card import Args, Ask, Domain
from noria.envs.simulated.domains import DOMAINS, UNSEEN
from noria.envs.simulated.goals import beside, goal_of, right_answer, unmet
from noria.envs.simulated.paths import State, patched
from noria.envs.simulated.scripted import acted
from noria.tokens.calls import Call

NAME = "simulated"
SYSTEM = "Do what is asked with the tools and change nothing else. Then say the answer to the question alone."
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
Level = Literal["easy", "normal", "hard"]
#: Level -> things asked for, size of the state, calls that the shorter way has at least.
LEVELS: dict[Level, tuple[int, int, int]] = {"easy": (1, 3, 1), "normal": (2, 4, 2), "hard": (3, 5, 3)}
_HELDOUT_ONE_IN = 4
#: Draws for one new task before the space counts as exhausted; rounds of planning, and calls of a solution, at most.
_MAX_DRAWS, _MOST_ROUNDS, _MOST_PLANNED = 400, 16, 14


def draw_tasks(split: Split, n: int, seed: int, levels: Sequence[Level], rules_seed: int) -> list[Task]:
    """`n` distinct tasks of a split, domains and levels in turn; a shorter list is a prefix of a longer.

    Raises:
        UserError: an unknown split, or more tasks than can be found.
    """
    check_split(split, SPLITS)
    rng = random.Random(f"{NAME}:{split}:{seed}")
    names = [name for name in DOMAINS if (name in UNSEEN) == (split == "unseen")]
    turns = [(name, level) for level in levels for name in names]
    found: dict[str, Task] = {}
    for _ in range(_MAX_DRAWS * (n + 1)):
        if len(found) == n:
            return list(found.values())
        name, level = turns[len(found) % len(turns)]
        task = _draw(rng, split, DOMAINS[name], level, rules_seed)
        if task is not None:
            found.setdefault(task.id, task)
    raise UserError(f"tasks must be fewer: got {n}, found {len(found)} - ask for fewer, or name more levels")


def domain_of(task: Task) -> Domain:
    """The domain of a task."""
    return DOMAINS[str(task.data["domain"])]


def asked_of(task: Task) -> list[tuple[Ask, Args]]:
    """What a task asks for, with parameters."""
    asks = domain_of(task).asks
    return [(asks[name], params) for name, params in task.data["asks"]]


def planned(task: Task, state: State, way: int, rules_seed: int) -> list[Call]:
    """The calls from a state to the goal, as far as the rules foresee them; the second way goes the asks backwards."""
    domain, start, calls = domain_of(task), task.data["state"], list[Call]()
    for ask, params in asked_of(task)[:: -1 if way else 1]:
        goal = goal_of([(ask, params)], 0, 0)
        for _ in range(_MOST_ROUNDS):
            if not unmet(goal, start, state):
                break
            more = ask.plan(state, params, way)
            for call in more:
                calls.append(call)
                state = after(domain, state, call, rules_seed)
            if not more or len(calls) > _MOST_PLANNED:
                return calls
    return calls


def after(domain: Domain, state: State, call: Call, rules_seed: int) -> State:
    """Where a call leads by the rules; where it is refused, nowhere."""
    action = domain.by_name[call.name]
    kinds = action.tool.parameters
    args: dict[str, Any] = {key: int(each) if kinds[key][0] == "integer" else each for key, each in call.args.items()}
    return patched(state, acted(state, action, args, rules_seed).changes)


def _draw(rng: random.Random, split: Split, domain: Domain, level: Level, rules_seed: int) -> Task | None:
    """One task; None where it belongs to another split, or is not what its level wants."""
    asks, rows, least = LEVELS[level]
    state = domain.start(rng, rows)
    chosen = list(_asks(rng, domain, state, asks))
    if len(chosen) < asks:
        return None
    asked = [(domain.asks[name], params) for name, params in chosen]
    question = rng.randrange(asks)
    goal = goal_of(asked, question, rng.randrange(len(asked[question][0].answers)))
    sentences = "; ".join(sentence for ask, params in asked for sentence in [ask.tell.format(**params)])
    prompt = f"{sentences[0].upper()}{sentences[1:]}. {goal['question']}"
    data = {"domain": domain.name, "level": level, "state": state, "asks": chosen, "goal": goal}
    content = json.dumps([prompt, data], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    if split != "unseen" and (int(digest[:8], 16) % _HELDOUT_ONE_IN == 0) != (split == "heldout"):
        return None
    tools = tuple(action.tool for action in domain.actions)
    plain = json.loads(content)[1]
    task = Task(f"{NAME}-{split}-{digest[:10]}", NAME, SYSTEM, prompt, tools, plain, split)
    return task if _is_sound(task, domain, least, rules_seed) else None


def _asks(rng: random.Random, domain: Domain, state: State, most: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Things to ask for that are about different rows and not so yet."""
    met = set[str]()
    for _ in range(most):
        name = rng.choice(list(domain.asks))
        params = domain.asks[name].draw(rng, state)
        if params is None:
            return
        about = {each for key, each in params.items() if isinstance(each, str) and each in _rows(state)}
        is_new = not about & met and bool(unmet(goal_of([(domain.asks[name], params)], 0, 0), state, state))
        if not is_new:
            return
        met |= about or {name}
        yield name, params


def _rows(state: State) -> set[str]:
    return {key for table in state.values() if isinstance(table, dict) for key in table}


def _is_sound(task: Task, domain: Domain, least: int, rules_seed: int) -> bool:
    """Whether both ways reach the goal by the rules, neither in fewer calls than its level wants."""
    start, goal = task.data["state"], task.data["goal"]
    if domain.schema.fault(start, start):
        return False
    for way in (0, 1):
        calls, state = planned(task, start, way, rules_seed), start
        if not least <= len(calls) <= _MOST_PLANNED:
            return False
        for call in calls:
            state = after(domain, state, call, rules_seed)
        if unmet(goal, start, state) or beside(goal, start, state) or not right_answer(goal, start, state):
            return False
    return True
