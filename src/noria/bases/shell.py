"""What a shell command is likely to do, by its words: for hints and for what may run beside what; never for a grade."""

from __future__ import annotations

import re

_WRITES = re.compile(r">|\btee\b|\bsed\s+-i|\b(cp|mv|rm|mkdir|touch|chmod|ln|patch)\b")


def writes(command: str) -> bool:
    """Whether a command has words that change files."""
    return bool(_WRITES.search(command))
