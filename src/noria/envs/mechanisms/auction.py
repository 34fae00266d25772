"""Sealed bids with one purse for several lots, against a rival whose bids are known in distribution.

The best response is computed over (lot, money): what is bid now is missing later. The higher bid wins and pays itself;
equal bids lose. State: (lot, money).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from noria.core.types import Tool
from noria.envs.mechanisms.model import Result, State, evenly, listed, myopic

PROMPTS = ("Bid for {lots} lots. Gain all you can.", "{lots} lots are sold by sealed bids. Gain the most.")


def draw(rng: random.Random) -> dict[str, Any]:
    """Parameters: worth of each lot, possible bids of the rival, money."""
    worth = [rng.randint(2, 9) for _ in range(rng.choice((2, 3)))]
    return {
        "worth": worth, "lots": len(worth), "rival": sorted(rng.sample(range(5), rng.choice((2, 3)))),
        "money": rng.randint(4, 7),
    }  # fmt: skip


class Auction:
    """See the module. Money that is left is worth nothing beyond what was not paid."""

    act = Tool("bid", "bid for this lot", {"n": ("integer", "amount, 0 to pass")})
    probes: tuple[Tool, ...] = (Tool("lots", "what each lot is worth to you"), Tool("rival", "what the rival bids"))

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.p = params
        self.start: State = (0, params["money"])

    def actions(self, state: State) -> tuple[int, ...]:
        """Bids that can be paid, up to one more than the rival ever bids."""
        return tuple(range(min(state[1], self.p["rival"][-1] + 1) + 1)) if state[0] < self.p["lots"] else ()

    def results(self, state: State, action: int) -> tuple[Result, ...]:
        """One result per possible bid of the rival."""
        lot, money = state
        won = (self.p["worth"][lot] - action, (lot + 1, money - action))
        return evenly({bid: won if action > bid else (0, (lot + 1, money)) for bid in self.p["rival"]})

    def greedy(self, state: State) -> int:
        """Gains most from this lot."""
        return myopic(self, state)

    def probe(self, name: str, number: int) -> str:
        """The parameters."""
        if name == "rival":
            return f"bids {listed(self.p['rival'])}, equally often"
        return "worth " + ", ".join(str(worth) for worth in self.p["worth"])

    def look(self, state: State) -> str:
        """Lot and money."""
        return f"lot {state[0] + 1} of {self.p['lots']}, money {state[1]}"
