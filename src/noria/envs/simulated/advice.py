"""Sentences of advice by the kind of action, and which kind helps against one that went wrong."""

from __future__ import annotations

from collections.abc import Mapping

from noria.bases.advice import MALFORMED

ADVICE: Mapping[str, tuple[str, ...]] = {
    "look": ("Read what is there before you act.", "First list all, then act.", "Look, then change one thing."),
    "make": (
        "When a call is refused, do what it says is missing.",
        "Change only what was asked for.",
        "Check the id before you call.",
    ),
    "let": (
        "Read what came of it before you go on.",
        "What others decide may differ: look at the answer.",
        "Do not guess what was chosen, read it.",
    ),
    "answer": (
        "Do all that was asked before you answer.",
        "Answer from what the tools told you.",
        "Say the answer alone.",
    ),
    "malformed": MALFORMED,
}
#: A wrong change is mended by reading; an answer that came too early by its own advice.
REMEDIES: Mapping[str, str] = {"make": "look", "let": "look"}
