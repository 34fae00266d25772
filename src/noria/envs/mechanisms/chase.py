"""Pursuit on a small graph: catch what runs for a way out.

A game of two, solved by minimax over the moves that are left; what runs away plays its side of the very solution that
scores the pursuer. State: (pursuer, prey, moves left). Capture or escape ends it; each
move costs 1, and to fail costs all moves and `_MISSED` more.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from noria.core.types import Tool
from noria.envs.mechanisms.model import Result, State, evenly

PROMPTS = (
    "Catch it soon, before it gets out at {exit}. Places are 1 to {places}.",
    "Places 1 to {places}, way out at {exit}: catch it, fast.",
)
_MISSED = 3
#: Share of draws that begin with the way out between the two.
_GUARDED = 0.75


def draw(rng: random.Random) -> dict[str, Any]:
    """Parameters: edges of a random tree with more edges added, places, way out, moves.

    Mostly the way out lies between the two, beside another way to the prey that comes first in order: there to follow
    is to lose, in about one of four.
    """
    places, guarded = rng.choice((7, 8)), rng.random() < _GUARDED
    edges = {(rng.randint(1, place - 1), place) for place in range(2, places + 1)}
    others = [(a, b) for b in range(2, places + 1) for a in range(1, b) if (a, b) not in edges]
    edges |= set(rng.sample(others, rng.choice((3, 4, 5, 6) if guarded else (1, 2, 3))))
    starts = _guarded(edges, places) if guarded else []
    hunter, prey, way_out = rng.choice(starts) if starts else rng.sample(range(1, places + 1), 3)
    return {
        "places": places, "edges": [list(edge) for edge in sorted(edges)], "hunter": hunter, "prey": prey,
        "exit": way_out, "moves": rng.choice((4, 5)),
    }  # fmt: skip


def _guarded(edges: set[tuple[int, int]], places: int) -> list[tuple[int, int, int]]:
    """(hunter, prey, way out) with the way out beside both, and a lower place beside both as well."""
    beside = {place: {b if a == place else a for a, b in edges if place in (a, b)} for place in range(1, places + 1)}
    return [
        (hunter, prey, way_out)
        for way_out in range(2, places + 1)
        for hunter in sorted(beside[way_out])
        for prey in sorted(beside[way_out] - beside[hunter] - {hunter})
        if min(beside[hunter] & beside[prey]) < way_out
    ]


class Chase:
    """See the module. The pursuer moves first and may not stay; the prey may."""

    act = Tool("go", "go to a place beside yours", {"n": ("integer", "place")})
    probes: tuple[Tool, ...] = (Tool("beside", "places beside a place", {"n": ("integer", "place")}),)

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.p = params
        self.start: State = (params["hunter"], params["prey"], params["moves"])
        self._beside: dict[int, list[int]] = {place: [] for place in range(1, params["places"] + 1)}
        for a, b in params["edges"]:
            self._beside[a].append(b)
            self._beside[b].append(a)
        self._costs: dict[State, int] = {}

    def actions(self, state: State) -> tuple[int, ...]:
        """Places beside the pursuer."""
        return () if self._end(state) is not None else tuple(sorted(self._beside[state[0]]))

    def results(self, state: State, action: int) -> tuple[Result, ...]:
        """The pursuer moves, then the prey answers as it had best."""
        after = self._answer(state, action)
        return evenly({0: (-1 - (self._end(after) or 0), after)})

    def greedy(self, state: State) -> int:
        """The place nearest to where the prey is now."""
        return min(self.actions(state), key=lambda place: (self._distance(place, state[1]), place))

    def probe(self, name: str, number: int) -> str:
        """Places beside a place."""
        if number not in self._beside:
            return f"error: n must be 1 to {self.p['places']}"
        return f"beside {number}: {' '.join(str(place) for place in sorted(self._beside[number]))}"

    def look(self, state: State) -> str:
        """Both places and the moves left."""
        return f"you at {state[0]}, it at {state[1]}, {state[2]} moves left"

    def cost(self, state: State) -> int:
        """Minimax: what the rest costs the pursuer when both sides play best."""
        if state not in self._costs:
            end = self._end(state)
            if end is not None:
                return end
            self._costs[state] = min(1 + self.cost(self._answer(state, place)) for place in self._beside[state[0]])
        return self._costs[state]

    def _end(self, state: State) -> int | None:
        """What the end costs, None while it goes on."""
        hunter, prey, left = state
        if hunter == prey:
            return 0
        return left + _MISSED if not left or prey == self.p["exit"] else None

    def _answer(self, state: State, place: int) -> State:
        """Where the prey goes once the pursuer stands at `place`: the answer that costs the pursuer most."""
        _, prey, left = state
        if place == prey:
            return (place, prey, left - 1)
        flights = [spot for spot in sorted([prey, *self._beside[prey]]) if spot != place]
        return max(((place, spot, left - 1) for spot in flights), key=self.cost)

    def _distance(self, start: int, end: int) -> int:
        reached, steps = {start}, 0
        while end not in reached:
            reached |= {spot for place in reached for spot in self._beside[place]}
            steps += 1
        return steps
