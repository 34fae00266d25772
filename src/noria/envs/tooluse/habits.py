"""Scripted policies: a planner that knows the goal and what calls were answered, and habits that bend its plan.

A right habit finds out what its calls depend on: it reads the tables first, or tries and heeds the refusal, and
asks the user for what the prompt leaves open. A policy keeps nothing between calls: it plays the conversation's calls
again and plans from where they led, so it can take over in the middle of one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from noria.bases.world import habit_named
from noria.core.protocols import Policy
from noria.core.types import Message, Task
from noria.envs.tooluse.backend import backend_of
from noria.envs.tooluse.desk import Desk
from noria.envs.tooluse.rules import copy_of
from noria.envs.tooluse.search import Move, Space, differ, facts_of, frozen
from noria.envs.tooluse.spec import Domain, State, Value
from noria.envs.tooluse.tasks import ASK, SUBMIT, gold_of, start_of
from noria.envs.tooluse.user import scripted
from noria.tokens.calls import Call, render_call

_BUDGET = 1500
_SLACK = 3
#: Kinds whose number is a difference: what is there must be known where the goal says how much there shall be.
_RELATIVE = ("add", "take", "transfer")


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of working.

    weight  share of the weak model's transcripts
    right   solves its tasks
    think   what it says to itself at the start
    reads   reads the tables before it acts
    whole   says its whole plan in one message
    checks  reads again before it submits
    slip    what it gets wrong
    advice  kind of the advice that it obeys
    """

    weight: float
    right: bool = False
    think: str = ""
    reads: bool = False
    whole: bool = False
    checks: bool = False
    slip: str = ""
    advice: str | None = None


HABITS: Mapping[str, Habit] = {
    "careful": Habit(0.07, True, "read first", reads=True, checks=True, advice="list"),
    "direct": Habit(0.07, True, "act and mend", advice="step"),
    "survey": Habit(0.06, True, "read first", reads=True, whole=True, advice="list"),
    "skip": Habit(0.18, think="act", slip="skip"),
    "wrong_id": Habit(0.13, think="read first", reads=True, slip="wrong_id"),
    "early": Habit(0.16, think="act", slip="early"),
    "units": Habit(0.10, think="act", slip="units"),
    "guess": Habit(0.08, think="act", slip="guess"),
    "leave": Habit(0.11, think="act", slip="leave"),
    "quit": Habit(0.04, slip="quit"),
}
EXPERTS = ("careful", "direct")


def make_policy(task: Task, domain: Domain, strategy: str, seed: int) -> Policy:
    """The policy of a habit on a task; the seed settles what the habit leaves to chance.

    Raises:
        UserError: an unknown strategy.
    """
    habit = habit_named(HABITS, strategy)
    planner = Planner(task, domain, habit, random.Random(f"{task.id}:{strategy}:{seed}"))

    def say(messages: Sequence[Message]) -> str:
        calls = planner.next(messages)
        opening = f"<think>{habit.think}</think>" if habit.think and not messages else ""
        return opening + "".join(render_call(call.name, **call.args) for call in calls)

    return say


class Planner:
    """From the conversation to the calls of the next message."""

    def __init__(self, task: Task, domain: Domain, habit: Habit, rng: random.Random) -> None:
        self.task, self.domain, self.habit = task, domain, habit
        self.gold = gold_of(task)
        self.bent = self._bend(rng)
        tables = {p.table for move in self.gold for p in domain.operation[move.name].params if p.table}
        self.lists = [
            Call(op.name) for op in domain.operations if op.kind == "list" and (op.table in tables)
        ]  # fmt: skip

    def next(self, messages: Sequence[Message]) -> list[Call]:
        """The calls of the next message."""
        state, log = self._seen(messages)
        if self.habit.slip:
            return self._wrong(log)
        if self.habit.reads and not any(self.domain.operation[c.name].reads for c, _ in log if c.name != ASK):
            return self.lists
        if self._must_ask(log):
            return [Call(ASK, {"about": next(iter(self.task.data["details"]))})]
        plan = plan_from(self.domain, self.task, state)
        if not plan:
            checked = log and log[-1][0].name != ASK and self.domain.operation[log[-1][0].name].reads
            if self.habit.checks and plan is not None and not checked:
                return self.lists
            return [Call(SUBMIT)]
        if self.habit.whole:
            return [_call(move) for move in plan]
        return [_call(plan[0])] if self.habit.reads else [self._try(plan, state, log)]

    def _seen(self, messages: Sequence[Message]) -> tuple[State, list[tuple[Call, str]]]:
        """The state that the conversation led to, and its calls with their answers."""
        log: list[tuple[Call, str]] = []

        class Noting(Desk):
            def call(self, call: Call) -> str:
                line = super().call(call)
                if not line.startswith("error: no tool"):
                    log.append((call, line))
                return line

        details = self.task.data["details"]
        desk = Noting(self.domain, self.task, lambda question: scripted(self.task.id, details, question))
        for message in messages[::2]:
            desk.run(message.content)
        return desk.state, log

    def _must_ask(self, log: Sequence[tuple[Call, str]]) -> bool:
        return bool(self.task.data["details"]) and not any(call.name == ASK for call, _ in log)

    def _try(self, plan: Sequence[Move], state: State, log: Sequence[tuple[Call, str]]) -> Call:
        """The call that does what is asked, even before what it needs; then what its refusal shows to be missing."""
        target, start = self.task.data["target"], start_of(self.task)
        asked = {(table, name) for table, _, name in differ(self.domain, start, state, target)}
        facts = facts_of(self.domain)
        wanted = next((move for move in plan if facts.writes[move.name] & asked), plan[0])
        kind = self.domain.operation[wanted.name].kind
        if kind in _RELATIVE and " more " not in self.task.prompt and " less " not in self.task.prompt:
            table = self.domain.operation[wanted.name].table
            reads = [call for call in self.lists if self.domain.operation[call.name].table == table]
            if reads and not any(call.name == reads[0].name for call, _ in log):
                return reads[0]
        if wanted == plan[0] or (_call(wanted) in [call for call, line in log if line.startswith("error:")]):
            return _call(plan[0])
        try:
            backend_of(self.domain).tools[wanted.name](copy_of(state), **dict(wanted.args))
        except backend_of(self.domain).refused:
            return _call(wanted)
        return _call(plan[0])

    def _wrong(self, log: Sequence[tuple[Call, str]]) -> list[Call]:
        """The next call of the bent plan; a refusal is not heeded."""
        reads = [call for call, _ in log if call.name != ASK and self.domain.operation[call.name].reads]
        if self.habit.reads and not reads:
            return self.lists
        if self.habit.slip not in ("guess", "quit") and self._must_ask(log):
            return [Call(ASK, {"about": next(iter(self.task.data["details"]))})]
        done = len([call for call, _ in log if call.name != ASK]) - len(reads)
        return [_call(self.bent[done])] if done < len(self.bent) else [Call(SUBMIT)]

    def _bend(self, rng: random.Random) -> list[Move]:
        """The plan as the habit understands it."""
        slip, gold, start = self.habit.slip, list(self.gold), start_of(self.task)
        if slip == "quit":
            return []
        if slip == "early":
            return gold[: max(1, len(gold) // 2)]
        if slip in ("skip", "leave"):
            asked = {(table, name) for table, _, name in differ(self.domain, start, start, self.task.data["target"])}
            writes = facts_of(self.domain).writes
            serves = [move for move in gold if writes[move.name] & asked]
            return serves if slip == "skip" else gold[: gold.index(serves[-1]) + 1] if serves else gold
        if slip == "units":
            size = int(self.task.data["packs"])
            if size:
                return [_numbered(move, lambda n: n // size if n % size == 0 else n) for move in gold]
            off = rng.choice((1, 2, 10))
            bent = [_numbered(move, lambda n: n + off) for move in gold]
            return bent if bent != gold else gold[:-1]
        if slip == "guess":
            details = set(self.task.data["details"].values())
            return [self._guessed(move, details, rng) for move in gold] if details else gold[:-1]
        if slip == "wrong_id":
            return self._mistaken(gold, rng)
        return gold

    def _guessed(self, move: Move, details: set[str], rng: random.Random) -> Move:
        """The call with something in place of what the user would have said."""
        params = {param.name: param for param in self.domain.operation[move.name].params}
        size = int(self.task.data["packs"]) or 1
        args: list[tuple[str, Value]] = []
        for key, value in move.args:
            choices: list[Value] = [value]
            param = params[key]
            if isinstance(value, int) and (str(value) in details or str(value // size) in details):
                choices = [n for n in (value - size, value + size, value + 2 * size) if param.low <= n <= param.high]
            elif str(value) in details:
                choices = list(param.values or start_of(self.task)[param.table])
            args.append((key, rng.choice(choices or [value])))
        return Move(move.name, tuple(args))

    def _mistaken(self, gold: Sequence[Move], rng: random.Random) -> list[Move]:
        """One row taken for another of its table."""
        rows = start_of(self.task)
        met = [str(value) for move in gold for _, value in move.args if isinstance(value, str)]
        known = [(name, table) for table, names in rows.items() for name in names if name in met and len(names) > 1]
        if not known:
            return list(gold)
        wrong, table = rng.choice(known)
        other = rng.choice([name for name in rows[table] if name != wrong])
        return [Move(m.name, tuple((key, other if v == wrong else v) for key, v in m.args)) for m in gold]


def plan_from(domain: Domain, task: Task, state: State) -> tuple[Move, ...] | None:
    """The calls still to be made: the rest of the known way, or a new shortest one. None where none was found."""
    known = gold_of(task)
    here, at = copy_of(start_of(task)), 0
    backend = backend_of(domain)
    while True:
        if here == state:
            return known[at:]
        if at == len(known):
            break
        backend.tools[known[at].name](here, **dict(known[at].args))
        at += 1
    key = (task.id, frozen(state))
    return _planned(_Keyed(key, (domain, task, state)))


class _Keyed:
    """Arguments that are equal where their key is."""

    def __init__(self, key: object, value: tuple[Domain, Task, State]) -> None:
        self.key, self.value = key, value

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.key == other.key


@lru_cache(maxsize=2048)
def _planned(asked: _Keyed) -> tuple[Move, ...] | None:
    domain, task, state = asked.value
    target, start = task.data["target"], start_of(task)
    numbers: dict[str, list[int]] = {}
    for operation in domain.writes:
        for param in operation.params:
            if param.kind == "int":
                table, name = param.measures.split(".")
                wanted: set[int] = set()
                for row_id, row in target[table].items():
                    now, then = int(state[table].get(row_id, {}).get(name, 0)), int(row[name])
                    wanted |= {abs(then - now), then} if row != start[table].get(row_id) or then != now else set()
                numbers[param.measures] = sorted(wanted)
    space = Space(domain, start, numbers, most=1, budget=_BUDGET)
    found = space.shortest(state, target, len(gold_of(task)) + _SLACK)
    return found.ways[0] if found.ways else None


def _call(move: Move) -> Call:
    return Call(move.name, move.texts)


def _numbered(move: Move, change: Callable[[int], int]) -> Move:
    return Move(move.name, tuple((key, change(v) if isinstance(v, int) else v) for key, v in move.args))
