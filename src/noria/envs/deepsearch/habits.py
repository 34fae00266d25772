"""Scripted policies: ways of looking for an answer, right and wrong.

A policy knows the clues of its question and what the conversation has shown, never the graph. It keeps nothing between
calls: its next message follows from the conversation alone, so it can take over in the middle of one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from noria.bases.world import habit_named
from noria.core.protocols import Policy
from noria.core.types import Message, Task
from noria.envs.deepsearch import clues
from noria.envs.deepsearch.belief import Belief, MissingError, believe
from noria.envs.deepsearch.clues import NAME_ASKED, Query
from noria.envs.deepsearch.corpus import ANSWER, BROWSE, SEARCH
from noria.envs.deepsearch.pages import Facts
from noria.envs.deepsearch.schema import KINDS
from noria.envs.deepsearch.seeker import Seeker, Way
from noria.tokens.calls import render_call

UNKNOWN = "unknown"
#: A message said this often leads nowhere.
_MAX_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of working.

    weight   share of the weak model's transcripts
    right    solves its tasks
    think    what it says to itself at the start, "" for nothing
    way      how it looks
    batch    calls in one message at most
    check    reads the page it will answer from again before it answers
    slip     what it gets wrong besides its way: answers from the first hit of a clue, from the first page it reads,
             from the page that the right one is mixed up with, with another value of the page, without looking
    advice   kind of the advice that it obeys
    """

    weight: float
    right: bool = False
    think: str = ""
    way: Way = Way()  # noqa: RUF009 - frozen
    batch: int = 6
    check: bool = False
    slip: Literal["", "first_hit", "early", "wrong_hop", "misread", "guess"] = ""
    advice: str | None = None


HABITS: Mapping[str, Habit] = {
    "rarest": Habit(0.06, True, "rarest clue first", advice="search"),
    "meet": Habit(0.05, True, "list both, keep what is on both", Way(meet=True), advice="search"),
    "steady": Habit(0.05, True, "rarest clue first, step by step", batch=2, advice="browse"),
    "check": Habit(0.04, True, "rarest clue first, check at the end", check=True, advice="answer"),
    "first_hit": Habit(0.15, think="search the clue", slip="first_hit"),
    "one_chain": Habit(0.13, think="follow one clue", way=Way(one_chain=True, values=False)),
    "early": Habit(0.14, think="rarest clue first", slip="early"),
    "wrong_hop": Habit(0.14, think="rarest clue first", slip="wrong_hop"),
    "listed": Habit(0.10, think="take the first of the list", way=Way(one_chain=True, values=False, listed=True)),
    "misread": Habit(0.08, think="rarest clue first", slip="misread"),
    "guess": Habit(0.06, slip="guess"),
}
EXPERTS = ("rarest", "meet")


def make_policy(task: Task, strategy: str, seed: int) -> Policy:
    """The policy of a habit on a task; the seed settles what the habit leaves to chance.

    Raises:
        UserError: an unknown strategy.
    """
    query, habit = clues.decode(task.data["query"]), habit_named(HABITS, strategy)
    chance = f"{task.id}:{strategy}:{seed}"

    def say(messages: Sequence[Message]) -> str:
        calls = _next(query, habit, messages, random.Random(chance))
        said = [message.content for message in messages if message.role == "assistant"]
        if said.count("".join(calls)) >= _MAX_REPEATS:
            calls = [_answer(UNKNOWN)]
        think = habit.think if not messages else ""
        return (f"<think>{think}</think>" if think else "") + "".join(calls)

    return say


def _next(query: Query, habit: Habit, messages: Sequence[Message], rng: random.Random) -> list[str]:
    """The calls of the next message."""
    belief = believe(messages)
    if habit.slip == "guess":
        return [_answer(_guess(query, rng))]
    try:
        if habit.slip == "first_hit":
            return [_answer(_from_first_hit(query, belief, rng))]
        if habit.slip == "early" and belief.order:
            return [_answer(_value(query, belief.page(belief.order[0]), rng))]
        found = Seeker(query, belief, habit.way).find()
        if not found:
            return [_answer(UNKNOWN)]
        page = belief.page(found[0])
        if habit.check and not _just_read(messages, found[0]):
            return [render_call(BROWSE, page=found[0])]
        if habit.slip == "wrong_hop":
            page = belief.page(page.mixed_up) if page.mixed_up else page
        return [_answer(_misread(query, page, rng) if habit.slip == "misread" else _value(query, page, rng))]
    except MissingError as fault:
        return list(fault.calls[: habit.batch])


def _just_read(messages: Sequence[Message], id_: str) -> bool:
    """Whether the last message did nothing but read this page: then every clue has been gone through once more."""
    said = [message.content for message in messages if message.role == "assistant"]
    return bool(said) and said[-1] == render_call(BROWSE, page=id_)


def _answer(text: str) -> str:
    return render_call(ANSWER, text=text)


def _value(query: Query, page: Facts, rng: random.Random) -> str:
    """What the page says of what is asked; something else that it says where it does not."""
    if query.asked == NAME_ASKED:
        return page.name or UNKNOWN
    return str(page.values[query.asked]) if query.asked in page.values else _misread(query, page, rng)


def _misread(query: Query, page: Facts, rng: random.Random) -> str:
    """Another number or name of the page."""
    if query.asked == NAME_ASKED:
        return rng.choice(sorted(page.names.values()) or [UNKNOWN])
    others = [str(value) for name, value in sorted(page.values.items()) if name != query.asked]
    return rng.choice(others or [UNKNOWN])


def _guess(query: Query, rng: random.Random) -> str:
    """An answer that could be one."""
    if query.asked == NAME_ASKED:
        return UNKNOWN
    attribute = KINDS[query.kinds[0]].attributes[query.asked]
    return rng.choice(attribute.words) if attribute.words else str(rng.randint(attribute.low, attribute.high))


def _from_first_hit(query: Query, belief: Belief, rng: random.Random) -> str:
    """The answer of the page that a search with the words of some clue lists first. MissingError: it was not read."""
    _, text = rng.choice(clues.sentences(query))
    if not belief.first_hits:
        raise MissingError([render_call(SEARCH, query=text)])
    return _value(query, belief.page(belief.first_hits[0].id), rng)
