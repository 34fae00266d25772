"""`/v1/chat/completions`: a conversation with tools in; a message with calls out."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

from noria.server.answers import Answers, Choice, Piece, usage
from noria.server.calls import content_length, taken_apart
from noria.server.exchange import Exchange
from noria.server.loop import DecodingLoop
from noria.server.model import Served
from noria.server.schema import ChatRequest
from noria.server.sessions import Session

#: Content and tool calls of a choice, as the client is told.
Told = tuple[str, list[dict[str, Any]]]


class Chat:
    """One request; begun when made. With a `session` it is recorded before the client has the end of the answer.

    `is_retry`: the client says that it has asked before and heard nothing.

    Raises:
        ApiError: the request cannot be served.
    """

    def __init__(
        self,
        served: Served,
        loop: DecodingLoop,
        request: ChatRequest,
        session: Session | None = None,
        is_retry: bool = False,
    ) -> None:
        request = request if session is None else session.shaped(request)
        self.request, self.session = request, session
        self.answers = Answers(served, "chat.completion", request)
        self.exchange = Exchange(loop, served, request.stops)
        self.form = served.form
        self.asked = None if session is None else session.chat(request, is_retry)
        self.ids = served.chat_ids(request) if self.asked is None else self.asked.ids
        wanted = request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
        max_new = served.room(self.ids, wanted, "messages")
        if session is not None and self.asked is not None:
            max_new = session.room(self.asked, max_new, "messages")
        for choice in range(request.n):
            settings = served.settings(request, choice, request.top_logprobs, "top_logprobs")
            self.exchange.add(self.ids, max_new, settings, None if choice else request.prompt_logprobs)
        self.exchange.begin()

    async def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        found = await self.exchange.choices()
        more: dict[str, Any] = {}
        if self.request.prompt_logprobs is not None:
            more["prompt_logprobs"] = self.answers.prompt_logprobs(self.exchange.scores[0])
        if self.request.return_token_ids:
            more["prompt_token_ids"] = list(self.ids)
        told = [self._apart(choice.text) for choice in found]
        self._record(found, told)
        choices = [self._choice(i, choice, *told[i]) for i, choice in enumerate(found)]
        return self.answers.whole(choices, len(self.ids), sum(len(choice.tokens) for choice in found), **more)

    def _record(self, found: list[Choice], told: list[Told]) -> None:
        if self.session is not None and self.asked is not None:
            self.session.record(self.asked, found, told)

    def _choice(self, index: int, choice: Choice, content: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if calls:
            message |= {"content": content or None, "tool_calls": calls}
        answer: dict[str, Any] = {
            "index": index,
            "message": message,
            "logprobs": self.answers.chat_logprobs(choice.tokens) if self.request.logprobs else None,
            "finish_reason": "tool_calls" if calls else choice.reason,
        }
        if self.request.return_token_ids:
            answer["token_ids"] = [token.id for token in choice.tokens]
        return answer

    def _apart(self, text: str) -> Told:
        offered = self.request.offered
        content, calls = taken_apart(text, offered, self.form) if offered else (text, [])
        return content, [
            {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": call} for call in calls
        ]

    async def chunks(self) -> AsyncIterator[dict[str, Any]]:
        """The answer as it comes; calls come whole, at the end."""
        found, shown = [Choice() for _ in range(self.request.n)], [0] * self.request.n
        for i in range(self.request.n):
            yield self.answers.chunk([_delta(i, {"role": "assistant", "content": ""})])
        last: list[tuple[int, str | None, Told]] = []
        async for piece in self.exchange.pieces():
            i, choice = piece.index, found[piece.index]
            choice.add(piece)
            certain = content_length(choice.text, self.form) if self.request.offered else len(choice.text)
            fresh, shown[i] = choice.text[shown[i] : certain], max(shown[i], certain)
            if fresh or piece.tokens:
                yield self._chunk(piece, fresh)
            if piece.reason:
                last.append((i, piece.reason, self._apart(choice.text)))
                if self.session is None:
                    for chunk in self._ending(*last[-1], shown[i]):
                        yield chunk
        if self.session is not None:  # nobody may go on from an answer before it is recorded
            self._record(found, [told for _, _, told in sorted(last, key=lambda end: end[0])])
            for i, reason, told in last:
                for chunk in self._ending(i, reason, told, shown[i]):
                    yield chunk
        if self.request.stream_options and self.request.stream_options.include_usage:
            yield self.answers.chunk([], usage=usage(len(self.ids), sum(len(choice.tokens) for choice in found)))

    def _ending(self, index: int, reason: str | None, told: Told, shown: int) -> Iterator[dict[str, Any]]:
        """The last chunks of a choice of which `shown` letters were sent."""
        content, calls = told
        if content[shown:]:
            yield self.answers.chunk([_delta(index, {"content": content[shown:]})])
        if calls:
            numbered = [{"index": k, **call} for k, call in enumerate(calls)]
            yield self.answers.chunk([_delta(index, {"tool_calls": numbered})])
        yield self.answers.chunk([_delta(index, {}, "tool_calls" if calls else reason)])

    def _chunk(self, piece: Piece, fresh: str) -> dict[str, Any]:
        choice = _delta(piece.index, {"content": fresh})
        if self.request.logprobs:
            choice["logprobs"] = self.answers.chat_logprobs(piece.tokens)
        if self.request.return_token_ids:
            choice["token_ids"] = [token.id for token in piece.tokens]
        return self.answers.chunk([choice])


def _delta(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
