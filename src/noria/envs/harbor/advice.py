"""Sentences for hints, by the kind of action they are about."""

from __future__ import annotations

import re
from collections.abc import Mapping

from noria.bases.shell import writes

_LOOKS = re.compile(r"^\s*(ls|pwd|cat|head|tail|find|grep|wc|file|stat|tree|du|diff|env)\b")

ADVICE: Mapping[str, tuple[str, ...]] = {
    "look": ("Look at the files before you change one.", "List the folder and read what is in it first."),
    "write": ("Write the file that the task asks for, at the path it names.", "Put the result where the task says."),
    "run": ("Run what you wrote and read what it prints.", "Check the result with a command before you end."),
    "answer": ("Do the work with bash; end when it is done.", "End only after you have checked the result."),
    "malformed": ("Write each call in full, with its closing tag.", "Close every tag of a call."),
}
REMEDIES: Mapping[str, str] = {"answer": "run", "write": "look", "run": "look"}


def kind_of_command(command: str) -> str:
    """`look`, `write` or `run`."""
    if writes(command):
        return "write"
    return "look" if _LOOKS.match(command) else "run"
