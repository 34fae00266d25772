"""Advice that fits every world with tools: act through them, and in the right form."""

from __future__ import annotations

MALFORMED = (
    "Write each call in full and close it.",
    "Close every tag of a call.",
    "Mind the form of your calls.",
)


def act(end: str) -> tuple[str, ...]:
    """Three sentences for who talks instead of acting; `end` is the third, which says how the world's work ends."""
    return ("Use a tool, do not only talk.", "Call a tool in each message.", end)
