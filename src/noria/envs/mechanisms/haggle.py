"""A sale in a few rounds: ask a price, come down when it is refused, and lose something with each round.

The buyer's limit is one of a few numbers; a refusal rules out those that are not below the price. Solved over beliefs:
the state is (round, how many of the lowest limits are still possible, whether it is over).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from noria.core.types import Tool
from noria.envs.mechanisms.model import Result, State, listed, myopic

PROMPTS = ("Sell it in {rounds} rounds. Gain all you can.", "You have {rounds} rounds to sell it. Gain the most.")


def draw(rng: random.Random) -> dict[str, Any]:
    """Parameters: possible limits in rising order, what a round costs, rounds."""
    return {
        "limits": sorted(rng.sample(range(3, 20), rng.choice((4, 5)))), "fee": rng.choice((1, 2, 3)),
        "rounds": rng.choice((2, 3)),
    }  # fmt: skip


class Haggle:
    """See the module. Without a sale only the rounds are paid for."""

    act = Tool("price", "ask a price", {"n": ("integer", "one of the possible limits")})
    probes: tuple[Tool, ...] = (Tool("limits", "what the buyer may pay at most"), Tool("fee", "what each round costs"))

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.p = params
        self.start: State = (0, len(params["limits"]), 0)

    def actions(self, state: State) -> tuple[int, ...]:
        """The limits that are still possible; a price between two of them never does better than the upper one."""
        over = state[2] or state[0] == self.p["rounds"] or not state[1]
        return () if over else tuple(self.p["limits"][: state[1]])

    def results(self, state: State, action: int) -> tuple[Result, ...]:
        """Sold if the limit is at least the price."""
        turn, possible, _ = state
        below = self.p["limits"].index(action)
        sold = (Fraction(possible - below, possible), action - self.p["fee"], (turn + 1, possible, 1))
        if not below:
            return (sold,)
        return (sold, (Fraction(below, possible), -self.p["fee"], (turn + 1, below, 0)))

    def greedy(self, state: State) -> int:
        """Gains most in this round."""
        return myopic(self, state)

    def probe(self, name: str, number: int) -> str:
        """The parameters."""
        if name == "fee":
            return f"each round costs {self.p['fee']}"
        return f"at most {listed(self.p['limits'])}, equally likely"

    def look(self, state: State) -> str:
        """Round, and what was refused."""
        limits = self.p["limits"]
        refused = f", refused {limits[state[1]]}" if state[1] < len(limits) else ""
        return f"round {state[0] + 1} of {self.p['rounds']}{refused}"
