"""One-line edits: write a line anew, its indentation kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from noria.core.errors import PolicyError
from noria.envs.microswe.plain import plain

_MAX_NEW = 120


class Edit(NamedTuple):
    """Line `line` (from 1) shall read `new`; the indentation stays."""

    line: int
    new: str


def read(args: Mapping[str, str]) -> Edit:
    """The edit that a call of the tool asks for.

    Raises:
        PolicyError: the line is no number, or the replacement is long or no plain text.
    """
    number, new = args["line"].strip(), args["new"]
    if not (number.isascii() and number.isdecimal() and len(number) < 5):
        raise PolicyError("line must be a number")
    if len(new) > _MAX_NEW or not (new.isascii() and new.isprintable()):
        raise PolicyError("new must be one short line of plain text")
    return Edit(int(number), new)


def follow(text: str, edit: Edit) -> str:
    """`text` after an edit that somebody asked for.

    Raises:
        PolicyError: as `apply`, or the file would hold what no function of this world needs.
    """
    made = apply(text, edit)
    if not plain(made):
        raise PolicyError("new must be plain code of the function")
    return made


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
