"""Hints by the kind of a key action; none names a table, a column or a value."""

from __future__ import annotations

from collections.abc import Mapping

ADVICE: Mapping[str, tuple[str, ...]] = {
    "columns": (
        "See the columns of each table first.",
        "First columns, then rows.",
        "Know the columns before you ask.",
    ),
    "filter": (
        "Find the row first, then follow what it names.",
        "One step at a time: what one gives, the next uses.",
        "Filter by the column that the question names.",
    ),
    "aggregate": (
        "Mind over or at least: > is not >=.",
        "Compute with the tool, do not add up yourself.",
        "Put the condition into the call.",
    ),
    "sql": ("Join the tables on what they share.", "One query can do all steps.", "Mind condition and order."),
    "answer": (
        "Answer only what a call gave, and it alone.",
        "Go all steps before you answer.",
        "Check that it is what was asked.",
    ),
    "malformed": (
        "Write each call in full and close it.",
        "Close every tag of a call.",
        "Use only the tools that exist.",
    ),
}
#: What helps where such a call went wrong.
REMEDIES: Mapping[str, str] = {"filter": "columns", "aggregate": "columns", "sql": "columns", "answer": "filter"}
