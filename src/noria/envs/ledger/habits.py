"""Scripted policies: a planner over what was seen, and habits that bend it.

A policy knows the goals and what the conversation has shown, never the hidden state. It keeps nothing between
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
from noria.envs.ledger.belief import Belief, believe
from noria.envs.ledger.instances import Goal, named_in
from noria.envs.ledger.service import SUBMIT
from noria.tokens.calls import Call, render_call

_PAY_GOALS = ("move", "drain", "close")
#: A call refused this often is given up (frozen and not empty makes two for one `close`).
_MAX_REFUSALS = 3


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of working. The defaults are those of somebody who acts at once and mends what is refused.

    weight    share of the weak model's transcripts
    right     solves its tasks
    think     what it says to itself at the start, "" for nothing
    look      what it reads before acting: each named account, the list, the list where a balance is needed
    cash      pays out and in instead of transferring
    verify    reads again before it submits
    recover   heeds and mends a refusal; otherwise it submits
    restore   freezes again what it had to unfreeze
    slip      what it gets wrong
    advice    kind of the advice that it obeys
    """

    weight: float
    right: bool = False
    think: str = ""
    look: Literal["each", "list", "need", "never"] = "need"
    cash: bool = False
    verify: bool = False
    recover: bool = True
    restore: bool = True
    slip: Literal["", "quit", "half", "guess", "twice", "reverse"] = ""
    advice: str | None = None


HABITS: Mapping[str, Habit] = {
    "careful": Habit(0.06, True, "read first", look="each", verify=True, advice="get"),
    "direct": Habit(0.05, True, "act and mend", advice="unfreeze"),
    "survey": Habit(0.04, True, "read first", look="list", advice="list"),
    "cash": Habit(0.04, True, "read first", look="each", cash=True, advice="withdraw"),
    "mend": Habit(0.04, True, "act", look="never", advice="unfreeze"),
    "quit": Habit(0.05, slip="quit"),
    "half": Habit(0.18, think="read first", look="each", restore=False, slip="half"),
    "guess": Habit(0.13, think="act", look="never", recover=False, slip="guess"),
    "give_up": Habit(0.12, think="act", recover=False),
    "leave_open": Habit(0.08, think="read first", look="each", restore=False),
    "twice": Habit(0.10, think="act and mend", slip="twice"),
    "reverse": Habit(0.11, think="act", recover=False, slip="reverse"),
}
EXPERTS = ("careful", "direct")


def make_policy(task: Task, strategy: str, seed: int) -> Policy:
    """The policy of a habit on a task; the seed settles what the habit leaves to chance.

    Raises:
        UserError: an unknown strategy.
    """
    planner = Planner(task.data["goals"], habit_named(HABITS, strategy), random.Random(f"{task.id}:{strategy}:{seed}"))

    def say(messages: Sequence[Message]) -> str:
        calls = planner.plan(believe(messages))
        think = planner.habit.think if not messages else ""
        opening = f"<think>{think}</think>" if think else ""
        return opening + "".join(render_call(call.name, **call.args) for call in calls)

    return say


class Planner:
    """From goals and belief to the calls of the next message."""

    def __init__(self, goals: Sequence[Goal], habit: Habit, rng: random.Random) -> None:
        self.habit = habit
        self.goals = [self._bend(goal) for goal in goals]
        self.named = named_in(goals)
        self.reading_order = self.named if rng.random() < 0.8 else self.named[::-1]
        self.guess = rng.choice((10, 20, 30))
        # Half the work of one goal: money paid out and never paid in.
        self.cash = habit.cash or (habit.slip == "half" and len(goals) == 1 and goals[0][0] != "close")

    def plan(self, belief: Belief) -> list[Call]:
        """The calls of the next message; one that is refused again and again is given up."""
        calls = self._plan(belief)
        if any(belief.refusals(call) >= _MAX_REFUSALS for call in calls):
            return [Call(SUBMIT)]
        return calls

    def _plan(self, belief: Belief) -> list[Call]:
        if self._stops(belief):
            return [Call(SUBMIT)]
        if look := self._look(belief):
            return look
        if self.habit.slip == "twice" and (again := belief.paid_once):
            return [again]
        for goal in self.goals:
            if not self._reached(goal, belief):
                return [self._step(goal, belief)]
        if opened := self._to_restore(belief):
            return [Call("freeze", {"id": opened})]
        if self.habit.verify and not belief.read_since_change:
            return self._gets()
        return [Call(SUBMIT)]

    def _bend(self, goal: Goal) -> Goal:
        """The goal as the habit understands it."""
        if self.habit.slip == "reverse" and goal[0] in ("move", "drain"):
            return [goal[0], goal[2], goal[1], *goal[3:]]
        return goal

    def _stops(self, belief: Belief) -> bool:
        """Whether the habit ends the work here, right or wrong."""
        if self.habit.slip == "quit" or (belief.refused and not self.habit.recover):
            return True
        if self.habit.slip != "half":
            return False
        if len(self.goals) > 1:
            return self._reached(self.goals[0], belief)
        return bool(belief.payments)

    def _look(self, belief: Belief) -> list[Call]:
        if self.habit.look == "list" and not any(call.name == "list" for call, _ in belief.log):
            return [Call("list")]
        if self.habit.look == "each" and any(name not in belief.statuses for name in self.named):
            return self._gets()
        return []

    def _gets(self) -> list[Call]:
        return [Call("get", {"id": name}) for name in self.reading_order]

    def _to_restore(self, belief: Belief) -> str | None:
        """An account that was frozen at first and is open now, or None."""
        if not self.habit.restore:
            return None
        for name in self.named:
            if belief.first.get(name) == "frozen" and belief.statuses[name] == "open":
                return name
        return None

    def _reached(self, goal: Goal, belief: Belief) -> bool:
        verb, name, *rest = goal
        if self.habit.slip == "guess" and verb in ("drain", "target"):
            return bool(belief.payments)
        if verb == "move":
            source, target, amount = name, rest[0], rest[1]
            cash = belief.done("withdraw", id=source, amount=amount) and belief.done(
                "deposit", id=target, amount=amount
            )
            return cash or belief.done("transfer", src=source, dst=target, amount=amount)
        if verb == "drain":
            return belief.balances.get(name) == 0 and belief.in_hand == 0
        if verb == "target":
            return bool(belief.payments) if self.habit.slip else bool(belief.balances.get(name) == rest[0])
        if verb == "limit":
            return bool(belief.limits.get(name) == rest[0])
        wanted = {"freeze": "frozen", "open": "open", "close": "closed"}[verb]
        return belief.statuses.get(name) == wanted

    def _step(self, goal: Goal, belief: Belief) -> Call:
        """The next call towards a goal that is not reached."""
        verb, name, *rest = goal
        if verb in ("freeze", "open"):
            return Call(verb, {"id": name})
        involved = [name, rest[0]] if verb in _PAY_GOALS else [name]
        if self.habit.recover:
            for account in involved:
                if belief.statuses.get(account) == "frozen":
                    return Call("unfreeze", {"id": account})
        if verb == "limit":
            return Call("set_limit", {"id": name, "amount": str(rest[0])})
        if verb == "target":
            return self._towards_target(name, rest[0], belief)
        if verb == "close":
            return self._towards_close(name, rest[0], belief)
        amount = rest[1] if verb == "move" else self._balance(name, belief)
        return self._pay(name, rest[0], amount, belief) if amount is not None else Call("list")

    def _balance(self, name: str, belief: Belief) -> int | None:
        """What the habit takes for the balance; None where it has to read."""
        known = belief.balances.get(name)
        return self.guess if known is None and self.habit.look == "never" else known

    def _pay(self, source: str, target: str, amount: int, belief: Belief) -> Call:
        if not self.cash:
            return Call("transfer", {"src": source, "dst": target, "amount": str(amount)})
        if belief.in_hand:
            return Call("deposit", {"id": target, "amount": str(belief.in_hand)})
        return Call("withdraw", {"id": source, "amount": str(amount)})

    def _towards_target(self, name: str, target: int, belief: Belief) -> Call:
        balance = belief.balances.get(name)
        if balance is None:
            if self.habit.look == "never":
                return Call("deposit", {"id": name, "amount": str(self.guess)})
            return Call("list")
        if self.cash and balance and not belief.payments:
            return Call("withdraw", {"id": name, "amount": str(balance)})
        missing = target - balance
        pays_in = (missing > 0) != (self.habit.slip == "reverse")
        return Call("deposit" if pays_in else "withdraw", {"id": name, "amount": str(abs(missing))})

    def _towards_close(self, name: str, heir: str, belief: Belief) -> Call:
        if belief.in_hand:
            return Call("deposit", {"id": heir, "amount": str(belief.in_hand)})
        balance = belief.balances.get(name)
        if self.habit.slip == "guess" and not belief.payments:
            balance = self.guess
        if not balance or (self.habit.slip in ("guess", "reverse") and belief.payments):
            return Call("close", {"id": name})
        if self.habit.slip == "reverse":
            return self._pay(heir, name, belief.balances.get(heir, self.guess), belief)
        return self._pay(name, heir, balance, belief)
