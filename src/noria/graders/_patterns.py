"""Search for regular expressions, in a child process: a pattern may take for ever on a text made for it."""

from __future__ import annotations

import re
from typing import Any


def work(payload: dict[str, Any]) -> list[int]:
    """How often each pattern occurs in the text; with `whole`, 1 where it is all of the text."""
    text: str = payload["text"]
    compiled = [re.compile(pattern, payload["flags"]) for pattern in payload["patterns"]]
    if payload["whole"]:
        return [int(one.fullmatch(text) is not None) for one in compiled]
    return [sum(1 for _ in one.finditer(text)) for one in compiled]
