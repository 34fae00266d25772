"""One request while it is being answered: its jobs in the decoding loop, and their events as pieces of choices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from noria.engines.serving import Settings, Token
from noria.server.answers import Choice, Piece
from noria.server.errors import ApiError
from noria.server.loop import DecodingLoop, Done, Event, Failed, Job, Scores
from noria.server.model import Served
from noria.server.text import TextStream


class Exchange:
    """See the module. `scores` fills with the scored prompts, by the index of their job."""

    def __init__(self, loop: DecodingLoop, served: Served, stops: Sequence[str]) -> None:
        self._loop, self._served, self._stops = loop, served, stops
        self._events: asyncio.Queue[tuple[Job, Event]] = asyncio.Queue()
        self.jobs: list[Job] = []
        self.scores: dict[int, tuple[Token, ...]] = {}

    def add(self, ids: tuple[int, ...], max_new: int, settings: Settings, score: int | None) -> None:
        """One more choice; `score` asks for the prompt's log-probabilities with so many alternatives."""
        self.jobs.append(Job(len(self.jobs), ids, max_new, settings, self._events, score))

    def begin(self) -> None:
        """Hand the jobs to the loop. Raises ApiError where it takes no more."""
        if len(self.jobs) > self._loop.capacity:
            raise ApiError(400, f"n times prompts must be at most {self._loop.capacity}: got {len(self.jobs)}", "n")
        self._loop.submit(self.jobs)

    async def pieces(self) -> AsyncIterator[Piece]:
        """What comes, as it comes. Whoever stops listening frees the slots.

        Raises:
            ApiError: the engine failed.
        """
        texts = [TextStream(self._served.decode, self._served.end_ids, self._stops) for _ in self.jobs]
        left = {job.index: job for job in self.jobs}
        try:
            while left:
                job, event = await self._events.get()
                if job.index not in left:
                    continue
                piece = self._piece(job, event, texts[job.index])
                if piece is not None:
                    if piece.reason:
                        self._loop.cancel([left.pop(job.index)])
                    yield piece
        finally:
            self._loop.cancel(list(left.values()))

    def _piece(self, job: Job, event: Event, text: TextStream) -> Piece | None:
        if isinstance(event, Failed):
            raise ApiError(500, event.message, code="engine_failed")
        if isinstance(event, Scores):
            self.scores[job.index] = event.tokens
            return None
        if isinstance(event, Done):
            fresh = text.flush()
            return Piece(job.index, fresh, reason="stop" if text.stopped or text.ended else event.reason)
        fresh = text.push(event.id)
        return Piece(job.index, fresh, (event,), "stop" if text.stopped else None)

    async def choices(self) -> list[Choice]:
        """All choices, whole."""
        found = [Choice() for _ in self.jobs]
        async for piece in self.pieces():
            found[piece.index].add(piece)
        return found


def deliver(bundle: list[tuple[Job, Any]]) -> None:
    """Hand events to the requests that they belong to; called in the thread of the requests."""
    for job, event in bundle:
        job.events.put_nowait((job, event))
