"""What to load when not everything fits: a 0/1 knapsack, one thing after the other, nothing comes off again.

Solved exactly over sets of loaded things. State: (set as bits, room left).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from noria.core.types import Tool
from noria.envs.mechanisms.model import Result, State, evenly, myopic

PROMPTS = ("Load what is worth most. There are things 1 to {things}.", "Things 1 to {things}: load the best.")


def draw(rng: random.Random) -> dict[str, Any]:
    """Parameters: weight and worth of each thing, room."""
    things = rng.choice((5, 6))
    weights = [rng.randint(2, 9) for _ in range(things)]
    return {
        "things": things, "weights": weights, "worth": [max(1, weight + rng.randint(-2, 4)) for weight in weights],
        "room": rng.randint(max(weights) + 1, max(weights) + 6),
    }  # fmt: skip


class Load:
    """See the module. It ends when nothing else fits."""

    act = Tool("load", "load a thing for good", {"n": ("integer", "thing")})
    probes: tuple[Tool, ...] = (Tool("weigh", "weight and worth of a thing", {"n": ("integer", "thing")}),)

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.p = params
        self.start: State = (0, params["room"])

    def actions(self, state: State) -> tuple[int, ...]:
        """Things that are not loaded and fit."""
        taken, room = state
        return tuple(
            number + 1 for number, weight in enumerate(self.p["weights"]) if not taken >> number & 1 and weight <= room
        )

    def results(self, state: State, action: int) -> tuple[Result, ...]:
        """It is loaded."""
        after = (state[0] | 1 << action - 1, state[1] - self.p["weights"][action - 1])
        return evenly({0: (self.p["worth"][action - 1], after)})

    def greedy(self, state: State) -> int:
        """The thing that is worth most."""
        return myopic(self, state)

    def probe(self, name: str, number: int) -> str:
        """Weight and worth of a thing."""
        if not 1 <= number <= self.p["things"]:
            return f"error: n must be 1 to {self.p['things']}"
        return f"thing {number} weight {self.p['weights'][number - 1]}, worth {self.p['worth'][number - 1]}"

    def look(self, state: State) -> str:
        """Room and load."""
        loaded = [str(number + 1) for number in range(self.p["things"]) if state[0] >> number & 1]
        return f"room {state[1]}, loaded {' '.join(loaded) or 'nothing'}"
