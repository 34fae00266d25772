"""What a mechanism is, and its exact solution.

A mechanism is a finite decision process whose states never come back (time passes), so that plain recursion solves it.
All numbers are fractions: an optimal decision has a gap of exactly 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

from noria.core.types import Tool

State = tuple[int, ...]
#: (probability, reward, next state); the probabilities of one decision add up to 1.
Result = tuple[Fraction, int, State]


class Mechanism(Protocol):
    """A sampled model and how it is told. `act` is the tool of a decision, `probes` those that tell parameters.

    `actions` is empty where the process is over. `greedy` is what looks best at once.
    """

    start: State
    act: Tool
    probes: tuple[Tool, ...]

    def __init__(self, params: Mapping[str, Any]) -> None: ...
    def actions(self, state: State) -> tuple[int, ...]: ...
    def results(self, state: State, action: int) -> tuple[Result, ...]: ...
    def greedy(self, state: State) -> int: ...
    def probe(self, name: str, number: int) -> str: ...
    def look(self, state: State) -> str: ...


class Solved:
    """A mechanism with its solution: `best`, `worst` and `random` are expected totals from a state to the end.

    best(s) = max_a Q(s, a), worst(s) = min_a of the same recursion, random(s) = the mean over all actions, with
    Q(s, a) = Σ p · (reward + best(next)): Bellman's recursion over a finite horizon.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self._values: dict[State, tuple[Fraction, Fraction, Fraction]] = {}
        self._gains: dict[State, dict[int, Fraction]] = {}
        self._lucky: dict[State, Fraction] = {}

    def best(self, state: State) -> Fraction:
        """What optimal play earns."""
        return self._solve(state)[0]

    def worst(self, state: State) -> Fraction:
        """What the worst play earns."""
        return self._solve(state)[1]

    def random(self, state: State) -> Fraction:
        """What play at random earns."""
        return self._solve(state)[2]

    def gains(self, state: State) -> Mapping[int, Fraction]:
        """Q(s, a) of every action: what it earns if all later play is optimal."""
        self._solve(state)
        return self._gains.get(state, {})

    def gap(self, state: State, action: int) -> Fraction:
        """What a decision gives away, in expectation: best(s) - Q(s, a), 0 where it is optimal."""
        return self.best(state) - self.gains(state)[action]

    def optimal(self, state: State) -> tuple[int, ...]:
        """The actions without a gap."""
        best = self.best(state)
        return tuple(action for action, gain in self.gains(state).items() if gain == best)

    def lucky(self, state: State) -> Fraction:
        """The chance that play at random makes no mistake from here on."""
        if state not in self._lucky:
            actions = self.mechanism.actions(state)
            chance = Fraction(0 if actions else 1)
            for action in self.optimal(state) if actions else ():
                chance += sum(p * self.lucky(after) for p, _, after in self.mechanism.results(state, action))
            self._lucky[state] = chance / max(1, len(actions))
        return self._lucky[state]

    def _solve(self, state: State) -> tuple[Fraction, Fraction, Fraction]:
        if state not in self._values:
            totals = {action: self._totals(state, action) for action in self.mechanism.actions(state)}
            if not totals:
                return Fraction(0), Fraction(0), Fraction(0)
            self._gains[state] = {action: best for action, (best, _, _) in totals.items()}
            self._values[state] = (
                max(best for best, _, _ in totals.values()),
                min(worst for _, worst, _ in totals.values()),
                sum((mean for _, _, mean in totals.values()), Fraction(0)) / len(totals),
            )
        return self._values[state]

    def _totals(self, state: State, action: int) -> tuple[Fraction, Fraction, Fraction]:
        best = worst = mean = Fraction(0)
        for p, reward, after in self.mechanism.results(state, action):
            later = self._solve(after)
            best, worst, mean = (
                best + p * (reward + later[0]), worst + p * (reward + later[1]), mean + p * (reward + later[2]),
            )  # fmt: skip
        return best, worst, mean


def myopic(mechanism: Mechanism, state: State) -> int:
    """The action with the highest expected reward at once, the smallest of several."""

    def at_once(action: int) -> Fraction:
        return sum((p * reward for p, reward, _ in mechanism.results(state, action)), Fraction(0))

    return max(mechanism.actions(state), key=lambda action: (at_once(action), -action))


def evenly(rewards: Mapping[int, tuple[int, State]]) -> tuple[Result, ...]:
    """Equally likely results, one per key."""
    return tuple((Fraction(1, len(rewards)), reward, after) for reward, after in rewards.values())


def listed(numbers: tuple[int, ...] | list[int]) -> str:
    """ "1, 2 or 4"."""
    texts = [str(number) for number in numbers]
    return " or ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
