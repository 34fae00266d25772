"""One-line edits: find the shortest fragment that turns one line into another, and apply such an edit.

An edit replaces the *first* occurrence of `old` on its line by `new`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from noria.core.errors import PolicyError

_TOKEN = re.compile(r"\w+|[<>=!+\-*/%]=|//|\s+|.")
_REACH = 8


class Edit(NamedTuple):
    """Replace the first `old` on line `line` (from 1) by `new`."""

    line: int
    old: str
    new: str


def fragment(before: str, after: str) -> tuple[str, str]:
    """The shortest (old, new) that turns `before` into `after` when the first `old` is replaced.

    Both fragments are not empty and neither starts nor ends with a space, so that they read as code.

    Raises:
        ValueError: the lines are equal, or no such fragment lies near the difference.
    """
    left, right = _TOKEN.findall(before), _TOKEN.findall(after)
    head = _shared(left, right)
    tail = _shared(left[head:][::-1], right[head:][::-1])
    best: tuple[int, int, str, str] | None = None
    for more_left in range(min(head, _REACH) + 1):
        for more_right in range(min(tail, _REACH) + 1):
            old = "".join(left[head - more_left : len(left) - tail + more_right])
            new = "".join(right[head - more_left : len(right) - tail + more_right])
            at = len("".join(left[: head - more_left]))
            if not _reads_well(old) or not _reads_well(new) or before.find(old) != at:
                continue
            size = (len(old) + len(new), more_left, old, new)
            best = size if best is None else min(best, size)
    if best is None or before == after:
        raise ValueError(f"no fragment turns {before!r} into {after!r}")
    return best[2], best[3]


def apply(text: str, edit: Edit) -> str:
    """`text` after the edit.

    Raises:
        PolicyError: no such line, the fragment is not on it, or the replacement spans lines.
    """
    lines = text.split("\n")
    if not 1 <= edit.line <= len(lines) - 1:
        raise PolicyError(f"no line {edit.line}")
    if not edit.old or edit.old not in lines[edit.line - 1]:
        raise PolicyError(f"old is not on line {edit.line}")
    if "\n" in edit.new or "\r" in edit.new:
        raise PolicyError("new must be one line")
    lines[edit.line - 1] = lines[edit.line - 1].replace(edit.old, edit.new, 1)
    return "\n".join(lines)


def repair(current: str, gold: str, prefer: int = 0) -> Edit | None:
    """An edit that mends one line of `current` that differs from `gold`, line `prefer` first; None if equal.

    A line that no fragment can mend is replaced whole.
    """
    pairs = list(zip(current.split("\n"), gold.split("\n"), strict=True))
    wrong = [number for number, (have, want) in enumerate(pairs, 1) if have != want]
    if not wrong:
        return None
    line = prefer if prefer in wrong else wrong[0]
    have, want = pairs[line - 1]
    try:
        return Edit(line, *fragment(have, want))
    except ValueError:
        return Edit(line, have, want)


def _shared(left: list[str], right: list[str]) -> int:
    count = 0
    for one, two in zip(left, right, strict=False):
        if one != two:
            break
        count += 1
    return count


def _reads_well(text: str) -> bool:
    return bool(text) and text == text.strip()
