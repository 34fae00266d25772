"""An engine that says written messages: for tests, demonstrations and dry runs of what stands around a policy.

It says the first message of its script that the prompt does not hold yet; after the last it says nothing and ends its
turn. Log-probabilities are those of the real model for these tokens, at temperature 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from noria.core.protocols import Completion
from noria.engines.serving import Given, ServingEngine, Settings, Token


class RecitedEngine:
    """What `server.loop.DecodingLoop` needs of an engine. `script` holds the ids of each message, its end included."""

    def __init__(self, engine: ServingEngine, script: Sequence[Sequence[int]], end_id: int) -> None:
        self._engine, self._script, self._end = engine, [tuple(ids) for ids in script], end_id
        self._left: dict[int, deque[Token]] = {}
        self._said: dict[int, list[Token]] = {}

    @property
    def free(self) -> int:
        """Sequences that may be opened."""
        return self._engine.free - len(self._left)

    def open(self, seq: int, ids: Sequence[int], max_new: int, settings: Settings) -> None:
        """Choose what is said after this prompt."""
        said = next((each for each in self._script if not _holds(ids, each)), (self._end,))[:max_new]
        scored, _ = self._engine.score([Given((*ids, *said), settings.top, settings)])[0]
        self._left[seq] = deque(scored[len(ids) - 1 :])
        self._said[seq] = []

    def drop(self, seq: int) -> None:
        """Forget a sequence."""
        self._left.pop(seq, None)
        self._said.pop(seq, None)

    def clear(self) -> None:
        """Forget every sequence."""
        self._left.clear()
        self._said.clear()

    def advance(self) -> tuple[list[tuple[int, Token]], list[Completion]]:
        """One token of every sequence."""
        made, done = [], []
        for seq, left in self._left.items():
            if not left:
                continue
            token, said = left.popleft(), self._said[seq]
            said.append(token)
            made.append((seq, token))
            if not left:
                ids, versions = tuple(t.id for t in said), tuple(t.version for t in said)
                stop = "end" if ids[-1] == self._end else "length"
                done.append(Completion(seq, ids, tuple(t.logp for t in said), versions, stop))
        return made, done

    def score(self, batch: Sequence[Given]) -> list[tuple[list[Token], Token]]:
        """As the real engine."""
        return self._engine.score(batch)


def _holds(ids: Sequence[int], part: tuple[int, ...]) -> bool:
    given, n = tuple(ids), len(part)
    return any(given[at : at + n] == part for at in range(len(given) - n + 1))
