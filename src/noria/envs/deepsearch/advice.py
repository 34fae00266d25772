"""Advice by kind of a key action. None of it names a page or a value."""

from __future__ import annotations

from collections.abc import Mapping

ADVICE: Mapping[str, tuple[str, ...]] = {
    "search": (
        "Search the rarest name first, not the whole clue.",
        "Start from the clue that fits fewest pages.",
        "Make a list for each clue, keep what is on both.",
    ),
    "browse": (
        "Read each page on the list before you choose.",
        "Follow the link that the clue is about.",
        "Read the page, do not trust the list.",
    ),
    "answer": (
        "Check every clue before you answer.",
        "Answer only when all clues fit one page.",
        "Read the page asked about, then answer.",
    ),
    "talk": (
        "Use a tool, do not only talk.",
        "Call search or browse in each message.",
        "Look it up, then answer with the tool.",
    ),
    "malformed": (
        "Write each call in full and close it.",
        "Close every tag of a call.",
        "Mind the form of your calls.",
    ),
}
#: An answer that was wrong came from pages that were not read; talk is helped by a search.
REMEDIES: Mapping[str, str] = {"answer": "browse", "talk": "search"}
