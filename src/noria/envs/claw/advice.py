"""Hints by the kind of a key action; none names a file or a value."""

from __future__ import annotations

from collections.abc import Mapping

ADVICE: Mapping[str, tuple[str, ...]] = {
    "sh": (
        "One job at a time, then look at what came out.",
        "Look at the result of each command.",
        "Check each file that you made.",
    ),
    "read": (
        "Read a file before you change it.",
        "Look at the input first, all of its columns.",
        "See what there is before you work.",
    ),
    "write": ("Write a file in the form that is asked for.", "Keep header and order as asked.", "Mind the name of it."),
    "edit": ("Change what is asked, and leave the rest.", "Edit only the right place.", "Look for all places."),
    "python": (
        "Let Python compute it, then check the file.",
        "Compute, do not guess.",
        "Print the answer that you will give.",
    ),
    "sql": (
        "Change only the rows that are asked for.",
        "Put the condition into the query.",
        "Look at the table first.",
    ),
    "answer": (
        "End only when every part is done.",
        "Check each part before you end; leave all else as it was.",
        "Answer with what the command printed.",
    ),
    "malformed": (
        "Write each call in full and close it.",
        "Close every tag of a call.",
        "Use only the tools that exist.",
    ),
}
#: What helps where such a call went wrong.
REMEDIES: Mapping[str, str] = {"sh": "read", "python": "read", "sql": "sql", "edit": "edit", "write": "write"}
