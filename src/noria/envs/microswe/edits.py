"""One-line edits: write a line anew, its indentation kept."""

from __future__ import annotations

from typing import NamedTuple

from noria.core.errors import PolicyError


class Edit(NamedTuple):
    """Line `line` (from 1) shall read `new`; the indentation stays."""

    line: int
    new: str


def apply(text: str, edit: Edit) -> str:
    """`text` after the edit.

    Raises:
        PolicyError: no such line, the line says that already, or the replacement is empty or spans lines.
    """
    lines = text.split("\n")
    if not 1 <= edit.line <= len(lines) - 1:
        raise PolicyError(f"no line {edit.line}")
    new = edit.new.strip()
    if not new:
        raise PolicyError("new must not be empty")
    if "\n" in new or "\r" in new:
        raise PolicyError("new must be one line")
    old = lines[edit.line - 1]
    made = old[: len(old) - len(old.lstrip())] + new
    if made == old:
        raise PolicyError(f"line {edit.line} says that already")
    lines[edit.line - 1] = made
    return "\n".join(lines)


def repair(current: str, gold: str, prefer: int = 0) -> Edit | None:
    """An edit that mends one line of `current` that differs from `gold`, line `prefer` first; None if equal."""
    pairs = list(zip(current.split("\n"), gold.split("\n"), strict=True))
    wrong = [number for number, (have, want) in enumerate(pairs, 1) if have != want]
    if not wrong:
        return None
    line = prefer if prefer in wrong else wrong[0]
    return Edit(line, pairs[line - 1][1].strip())
