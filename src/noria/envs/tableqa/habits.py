"""Scripted ways of working: a list of calls, each filled in with what those before it gave."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noria.core.errors import UserError
from noria.core.protocols import Policy
from noria.core.types import Message, Task
from noria.tokens.calls import Call, hear, render_call

EXPERTS = ("careful", "direct")
_SLOT = re.compile(r"\{(\d+)\}")
_NAMED = re.compile(r"^\[\d+ \w+\] ", re.MULTILINE)
_THINK_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Plan:
    """Messages in order, each a tuple of calls; `source` is the message whose result is answered, or a text is said."""

    messages: tuple[tuple[tuple[str, dict[str, str]], ...], ...]
    source: int = -1
    text: str = ""
    first: int = 0


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of working: its weight among all, its plan, what it may think first, the kind whose advice it obeys."""

    weight: float
    plan: Callable[[Mapping[str, Any], random.Random], Plan]
    think: str
    advice: str | None = None


def make_policy(task: Task, strategy: str, seed: int) -> Policy:
    """A policy for one task.

    Raises:
        UserError: unknown strategy.
    """
    if strategy not in HABITS:
        raise UserError(f"strategy must be one of {', '.join(HABITS)}: got {strategy!r} - choose one of them")
    habit, rng = HABITS[strategy], random.Random(f"{task.id}/{strategy}/{seed}")
    thought = habit.think if rng.random() < _THINK_SHARE else ""
    plan = habit.plan(task.data, rng)

    def play(messages: Sequence[Message]) -> str:
        opening = f"<think>{thought}</think>" if thought and not messages else ""
        told = {_key(message.content): _after(messages, i) for i, message in enumerate(messages[:-1])}
        seen: list[list[str]] = []
        for number, calls in enumerate(plan.messages):
            filled = [(name, {key: _fill(text, seen) for key, text in args.items()}) for name, args in calls]
            said = "".join(render_call(name, **args) for name, args in filled)
            if _key(said) not in told:
                return opening + said
            if number >= plan.first:
                seen.append(_cells(told[_key(said)]))
        if plan.text or not seen:
            return opening + (plan.text or "I do not know.")
        return opening + (", ".join(seen[plan.source]) if task.data["form"] == "list" else seen[plan.source][0])

    return play


def _fill(text: str, seen: Sequence[Sequence[str]]) -> str:
    return _SLOT.sub(lambda slot: "|".join(seen[int(slot[1])]), text)


def _cells(observation: str) -> list[str]:
    """The first cells of a result's rows."""
    return [line.partition(",")[0] for line in _NAMED.sub("", observation).split("\n")]


def _key(message: str) -> str:
    """What a message calls."""
    return repr([(call.name, sorted(call.args.items())) for call in hear(message).calls if isinstance(call, Call)])


def _after(messages: Sequence[Message], at: int) -> str:
    """The observation that follows a message."""
    return messages[at + 1].content if messages[at].role == "assistant" else ""


def _looks(data: Mapping[str, Any]) -> tuple[tuple[str, dict[str, str]], ...]:
    return tuple(("columns", {"table": name}) for name in data["tables"])


def _steps(data: Mapping[str, Any]) -> list[tuple[tuple[str, dict[str, str]], ...]]:
    return [((str(name), dict(args)),) for name, args in data["steps"]]


def _sql(query: str) -> tuple[tuple[str, dict[str, str]], ...]:
    return (("sql", {"query": query}),)


def _careful(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Looks at the columns, then goes step by step."""
    return Plan((_looks(data), *_steps(data)), first=1)


def _direct(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Looks at the columns, then asks one query."""
    return Plan((_looks(data), _sql(data["query"])), first=1)


def _checked(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Step by step, then the one query as a check."""
    return Plan((_looks(data), *_steps(data), _sql(data["query"])), first=1)


def _slip(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Asks for another column, row or bound."""
    return Plan((_looks(data), _sql(data["slip"])), first=1)


def _hasty(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Does not look, and asks the wrong query."""
    return Plan((_sql(data["slip"]),))


def _half(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Answers what the first step gave."""
    return Plan((_looks(data), *_steps(data)[:1]), first=1)


def _misread(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Finds it, and answers something else."""
    return Plan((_looks(data), *_steps(data)), text=_other(data, rng), first=1)


def _guess(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Looks at nothing."""
    return Plan((), text=_other(data, rng))


def _early(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Looks at the columns, and guesses."""
    return Plan((_looks(data),), text=_other(data, rng), first=1)


def _other(data: Mapping[str, Any], rng: random.Random) -> str:
    """An answer of the right form that is not right."""
    answer = data["answer"][0]
    if data["form"] == "number":
        return str(round(float(answer) + rng.choice((-2, -1, 1, 2, 5)), 1)).removesuffix(".0")
    cells = [str(cell) for table in data["tables"].values() for row in table["rows"] for cell in row]
    return rng.choice(sorted({cell for cell in cells if cell != answer and not cell.isdigit()}))


HABITS: Mapping[str, Habit] = {
    "careful": Habit(0.10, _careful, "columns, then step by step.", "filter"),
    "direct": Habit(0.10, _direct, "columns, then one query.", "sql"),
    "checked": Habit(0.06, _checked, "twice is safe.", "aggregate"),
    "slip": Habit(0.18, _slip, "easy."),
    "hasty": Habit(0.12, _hasty, "I know the columns."),
    "half": Habit(0.16, _half, "one step will do."),
    "misread": Habit(0.10, _misread, "found it."),
    "guess": Habit(0.09, _guess, "I know this."),
    "early": Habit(0.09, _early, "seems clear."),
}
