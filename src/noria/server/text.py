"""Token ids to text piece by piece: whole characters only, up to a stop string."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

#: What a decoder prints for bytes that are no character yet.
PARTIAL = "�"

Decode = Callable[[Sequence[int]], str]


class TextStream:
    """The text of one sequence as it grows.

    `stopped` once a stop string was met, `ended` once an end-of-turn token was; both are left out of the text.
    """

    def __init__(self, decode: Decode, end_ids: Collection[int], stops: Sequence[str] = ()) -> None:
        self._decode, self._end_ids, self._stops = decode, end_ids, tuple(stops)
        self._ids: list[int] = []
        self._from = self._shown = 0
        self._held = ""
        self.stopped = self.ended = False

    def push(self, token: int) -> str:
        """Take the next token; returns the text that is certain now."""
        self.ended |= token in self._end_ids
        if self.stopped or self.ended:
            return ""
        self._ids.append(token)
        return self._release(self._fresh(partial=False))

    def flush(self) -> str:
        """What was held back when the sequence ended."""
        if self.stopped:
            return ""
        text = self._release(self._fresh(partial=True))
        held, self._held = self._held, ""
        return text if self.stopped else text + held

    def _fresh(self, partial: bool) -> str:
        """Text of the tokens that were not shown yet, decoded behind those before them, which spaces depend on."""
        before = self._decode(self._ids[self._from : self._shown])
        now = self._decode(self._ids[self._from :])
        if not partial and now.endswith(PARTIAL):
            return ""
        self._from, self._shown = self._shown, len(self._ids)
        return now[len(before) :]

    def _release(self, fresh: str) -> str:
        text = self._held + fresh
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[0]]
        keep = max((overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def overlap(text: str, mark: str) -> int:
    """Length of the longest end of `text` with which `mark`, not whole, begins."""
    return next((n for n in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-n:])), 0)
