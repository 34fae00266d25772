"""Observations that are too long: their head and their tail stay, and a line says how many tokens were left out."""

from __future__ import annotations

from noria.tokens.renderer import Renderer

#: Attempts to fit; each takes off what the last was too long by, so two are the rule.
ATTEMPTS = 16


def cut(renderer: Renderer, text: str, limit: int, where: str = "") -> str | None:
    """Head and tail of a text in at most `limit` tokens, None where all of it fits; `where` says where the rest is.

    Where the limit leaves no room beside the marker, the marker alone is returned, and may be longer than the limit.
    """
    ids = renderer.encode(text)
    if len(ids) <= limit:
        return None
    room = limit - len(renderer.encode(_marker(len(ids), where)))
    for _ in range(ATTEMPTS):
        if room < 2:
            break
        head = _head(renderer, text, ids, (room + 1) // 2)
        tail = _tail(renderer, text, ids, room // 2)
        left = len(ids) - len(renderer.encode(head)) - len(renderer.encode(tail))
        found = head + _marker(left, where) + tail
        excess = len(renderer.encode(found)) - limit
        if excess <= 0:
            return found
        room -= excess
    return _marker(len(ids), where).strip("\n")


def _marker(tokens: int, where: str) -> str:
    return f"\n[{tokens} tokens left out{where}]\n"


def _head(renderer: Renderer, text: str, ids: tuple[int, ...], n: int) -> str:
    """The text of the first `n` tokens, less those that end inside a character."""
    for k in range(n, max(0, n - 8), -1):
        said = str(renderer.tokenizer.decode(list(ids[:k])))
        if text.startswith(said):
            return said
    return text[: len(text) * n // len(ids)]  # this tokenizer does not give back what it was given


def _tail(renderer: Renderer, text: str, ids: tuple[int, ...], n: int) -> str:
    for k in range(n, max(0, n - 8), -1):
        said = str(renderer.tokenizer.decode(list(ids[len(ids) - k :])))
        if text.endswith(said):
            return said
    return text[len(text) - len(text) * n // len(ids) :]
