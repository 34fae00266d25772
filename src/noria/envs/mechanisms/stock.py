"""Stock of a shop: order each morning, sell by day to a demand that is known in distribution only.

A finite Markov decision process, solved by backward induction. State: (day, stock).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from noria.core.types import Tool
from noria.envs.mechanisms.model import Result, State, evenly, listed, myopic

PROMPTS = ("Run the shop for {days} days. Earn all you can.", "{days} days in the shop: earn the most.")


def draw(rng: random.Random) -> dict[str, Any]:
    """Parameters: days, room, price, cost of one, cost of keeping one overnight, possible demands."""
    cost = rng.randint(1, 3)
    return {
        "days": rng.choice((3, 4)), "room": rng.choice((4, 5)), "price": cost + rng.randint(1, 5), "cost": cost,
        "keep": rng.choice((0, 1, 1, 2)), "demands": sorted(rng.sample(range(5), rng.choice((2, 3)))),
        "stock": rng.randint(0, 2),
    }  # fmt: skip


class Stock:
    """See the module. An order arrives at once; what is left after the last day is worth nothing."""

    act = Tool("order", "order goods for today", {"n": ("integer", "how many, may be 0")})
    probes: tuple[Tool, ...] = (Tool("prices", "price, cost, keeping"), Tool("demand", "what is asked for in a day"))

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.p = params
        self.start: State = (0, params["stock"])

    def actions(self, state: State) -> tuple[int, ...]:
        """Orders that fit into the room."""
        return tuple(range(self.p["room"] - state[1] + 1)) if state[0] < self.p["days"] else ()

    def results(self, state: State, action: int) -> tuple[Result, ...]:
        """One result per possible demand."""
        held = state[1] + action
        found = {}
        for demand in self.p["demands"]:
            left = max(0, held - demand)
            reward = self.p["price"] * (held - left) - self.p["cost"] * action - self.p["keep"] * left
            found[demand] = (reward, (state[0] + 1, left))
        return evenly(found)

    def greedy(self, state: State) -> int:
        """Earns most today."""
        return myopic(self, state)

    def probe(self, name: str, number: int) -> str:
        """The parameters."""
        if name == "demand":
            return f"each day {listed(self.p['demands'])}, equally often"
        return f"price {self.p['price']}, cost {self.p['cost']}, keeping {self.p['keep']} each night"

    def look(self, state: State) -> str:
        """Day and stock."""
        return f"day {state[0] + 1} of {self.p['days']}, stock {state[1]}, room for {self.p['room']}"
