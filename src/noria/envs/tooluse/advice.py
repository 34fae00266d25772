"""Sentences of advice by the kind of action, and which kind helps against one that went wrong."""

from __future__ import annotations

from collections.abc import Mapping

from noria.bases.advice import MALFORMED, act

_LOOK = (
    "Read what is there before you act.",
    "First list the rows, then act.",
    "Look at each table before you change it.",
)
_ORDER = (
    "When a call is refused, mend it and go on.",
    "After an error do what it says is missing.",
    "First make ready what the call needs.",
)
_NUMBER = (
    "Count packs in single units before you call.",
    "Multiply the packs by their size.",
    "Read the number that is there, then change the difference.",
)
_RIGHT_ROW = (
    "Check the id before you call.",
    "Take the row that was named, no other.",
    "Compare the id with what was asked.",
)

ADVICE: Mapping[str, tuple[str, ...]] = {
    "list": _LOOK,
    "get": _LOOK,
    "find": _LOOK,
    "count": _LOOK,
    "step": _ORDER,
    "add": _NUMBER,
    "take": _NUMBER,
    "transfer": _NUMBER,
    "change": _NUMBER,
    "place": _RIGHT_ROW,
    "assign": _RIGHT_ROW,
    "pass": _RIGHT_ROW,
    "restart": _ORDER,
    "release": _RIGHT_ROW,
    "set": _RIGHT_ROW,
    "create": (
        "Make one new row, with all that was said.",
        "Check who and what before you make a row.",
        "Make it once, with the right values.",
    ),
    "cancel": (
        "Cancel only what was named.",
        "See what a cancelled row gives back.",
        "Check the row before you cancel it.",
    ),
    "finish": (
        "Finish only what was named.",
        "Check the row before you finish it.",
        "A finished row stays finished.",
    ),
    "ask": (
        "Ask the user for what is not said.",
        "Do not guess, ask the user.",
        "First ask what is missing, then act.",
    ),
    "submit": (
        "Finish every part before you submit.",
        "Put back what you had to change, then submit.",
        "Submit only when all parts are done.",
    ),
    "answer": act("Act with tools, then submit."),
    "malformed": MALFORMED,
}
REMEDIES: Mapping[str, str] = {
    "step": "list", "place": "list", "assign": "list", "pass": "list", "release": "list", "set": "list",
    "create": "ask",
}  # fmt: skip
