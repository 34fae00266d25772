"""Two lines and one server: whom to serve while others come.

A finite Markov decision process, solved by backward induction; only the split `unseen` has it. State: (step, first
line, second line). Serving takes up to `speed` off a line, then one comes to one of the two, then all who wait cost.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from noria.core.types import Tool
from noria.envs.mechanisms.model import Result, State, myopic

PROMPTS = (
    "Serve two lines for {steps} steps. Keep waiting cheap.",
    "{steps} steps, two lines: let waiting cost least.",
)


def draw(rng: random.Random) -> dict[str, Any]:
    """Parameters: steps, speeds, costs of one who waits, chances in quarters that the next comes to line 1, lengths."""
    return {
        "steps": rng.choice((3, 4)), "speed": [rng.choice((1, 2, 3)), rng.choice((1, 2, 3))],
        "cost": [rng.randint(1, 4), rng.randint(1, 4)], "first": rng.choice((1, 2, 3)),
        "lines": [rng.randint(1, 5), rng.randint(1, 5)],
    }  # fmt: skip


class Queue:
    """See the module."""

    act = Tool("serve", "serve a line", {"n": ("integer", "1 or 2")})
    probes: tuple[Tool, ...] = (
        Tool("costs", "speed and cost of each line"),
        Tool("arrivals", "where the next one comes"),
    )

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.p = params
        self.start: State = (0, *params["lines"])

    def actions(self, state: State) -> tuple[int, ...]:
        """Either line."""
        return (1, 2) if state[0] < self.p["steps"] else ()

    def results(self, state: State, action: int) -> tuple[Result, ...]:
        """One result per line that the next may come to."""
        lines = list(state[1:])
        lines[action - 1] = max(0, lines[action - 1] - self.p["speed"][action - 1])
        found = []
        for line, quarters in ((0, self.p["first"]), (1, 4 - self.p["first"])):
            after = [length + (at == line) for at, length in enumerate(lines)]
            cost = sum(length * each for length, each in zip(after, self.p["cost"], strict=True))
            found.append((Fraction(quarters, 4), -cost, (state[0] + 1, *after)))
        return tuple(found)

    def greedy(self, state: State) -> int:
        """The line that costs less at once."""
        return myopic(self, state)

    def probe(self, name: str, number: int) -> str:
        """The parameters."""
        if name == "arrivals":
            return f"one each step, to line 1 in {self.p['first']} of 4"
        return ", ".join(f"line {at + 1} speed {self.p['speed'][at]} cost {self.p['cost'][at]}" for at in range(2))

    def look(self, state: State) -> str:
        """Step and lines."""
        return f"step {state[0] + 1} of {self.p['steps']}, lines {state[1]} and {state[2]}"
