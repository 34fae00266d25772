"""Hints by the kind of a key action; none names a number."""

from __future__ import annotations

from collections.abc import Mapping

from noria.bases.advice import MALFORMED, act

ADVICE: Mapping[str, tuple[str, ...]] = {
    "probe": ("Learn all numbers before you decide.", "First ask for the numbers.", "Ask first, then plan to the end."),
    "look": ("Look where things stand at each step.", "Look, then decide.", "Mind how much is left."),
    "order": (
        "Order for what is likely to be asked.",
        "Mind the last day: what is left is lost.",
        "Weigh price, cost and keeping.",
    ),
    "bid": ("Keep money for the better lots.", "Bid just above a likely rival.", "Do not pay what a lot is worth."),
    "price": ("Ask high first only if a round is cheap.", "After a refusal come down.", "Mind what each round costs."),
    "load": (
        "Fill the room well, not by worth alone.",
        "Think of what fits together.",
        "Try what is left for the rest.",
    ),
    "go": ("Cut off its way, do not just follow.", "Think of where it can go next.", "Go where it must come."),
    "serve": ("Serve where waiting costs most.", "Mind speed and cost together.", "Think of who comes next."),
    "stop": ("Do not give up before the end.", "Play on to the end.", "There is more to decide."),
    "answer": act("Decide with a tool."),
    "malformed": MALFORMED,
}
#: A wrong decision is mended by its own advice, an early end by going on; to decide unasked by asking.
REMEDIES: Mapping[str, str] = {"look": "probe", "answer": "probe"}
