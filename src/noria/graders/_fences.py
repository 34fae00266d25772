"""What an answer holds: blocks are found in linear time, since a pattern over fences takes for ever on some texts."""

from __future__ import annotations

_FENCE = "```"


def whole(text: str) -> str:
    """The text without halves of surrogate pairs, which no file and no request can hold."""
    return text.encode("utf-8", "replace").decode()


def last_block(text: str, languages: tuple[str, ...]) -> str | None:
    """The inside of the last closed block that names one of the languages or none; None where there is none."""
    pieces = text.split(_FENCE)
    # Pieces 1, 3, 5, … stand between an opening and a closing fence; what follows the last fence is in no block.
    for at in reversed(range(1, len(pieces) - 1, 2)):
        first, newline, inside = pieces[at].partition("\n")
        if newline and first.strip().lower() in ("", *languages):
            return inside.removesuffix("\n")
    return None
