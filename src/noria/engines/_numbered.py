"""Sequences by number, as engines keep them: no more than there are slots, none longer than may be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from noria.core.errors import EngineError


class Bounds(Protocol):
    """What of an engine's table bounds its sequences."""

    @property
    def slots(self) -> int: ...

    @property
    def max_tokens(self) -> int: ...


class Held(Protocol):
    """A sequence: its ids, prompt included."""

    ids: list[int]


B = TypeVar("B", bound=Bounds)
S = TypeVar("S", bound=Held)


class Numbered(ABC, Generic[B, S]):
    """What engines have in common: the sequences that they hold, by number."""

    def __init__(self, config: B) -> None:
        self.config = config
        self._sequences: dict[int, S] = {}

    @property
    def free(self) -> int:
        """Slots that a new sequence could take."""
        return self.config.slots - len(self._sequences)

    @abstractmethod
    def _begin(self, seq: int, seed: int) -> S:
        """A new sequence under this number; there is a slot for it."""

    def _extended(self, seq: int, ids: Sequence[int], seed: int) -> tuple[S, int]:
        """The sequence with `ids` after what it held, opened where the number is new, and the tokens still allowed.

        Raises:
            EngineError: no free slot, or no room for another token.
        """
        state = self._sequences.get(seq)
        held = len(state.ids) if state else 0
        room = self.config.max_tokens - held - len(ids)
        if room < 1:
            raise EngineError(f"sequence of {held + len(ids)} tokens leaves no room to generate")
        if state is None:
            if not self.free:
                raise EngineError(f"no free slot: all {self.config.slots} are taken")
            state = self._sequences[seq] = self._begin(seq, seed)
        state.ids.extend(ids)
        return state, room
