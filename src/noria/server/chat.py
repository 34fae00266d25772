"""`/v1/chat/completions`: a conversation with tools in; a message with calls out."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

from noria.server.answers import Answers, Choice, Piece, usage
from noria.server.calls import content_length, taken_apart
from noria.server.exchange import Exchange
from noria.server.loop import DecodingLoop
from noria.server.model import Served
from noria.server.schema import ChatRequest


class Chat:
    """One request; begun when made.

    Raises:
        ApiError: the request cannot be served.
    """

    def __init__(self, served: Served, loop: DecodingLoop, request: ChatRequest) -> None:
        self.request = request
        self.answers = Answers(served, "chat.completion", request)
        self.exchange = Exchange(loop, served, request.stops)
        self.ids = served.chat_ids(request)
        wanted = request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
        max_new = served.room(self.ids, wanted, "messages")
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
        choices = [self._choice(i, choice) for i, choice in enumerate(found)]
        return self.answers.whole(choices, len(self.ids), sum(len(choice.tokens) for choice in found), **more)

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        content, calls = self._apart(choice.text)
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

    def _apart(self, text: str) -> tuple[str, list[dict[str, Any]]]:
        offered = self.request.offered
        content, calls = taken_apart(text, offered) if offered else (text, [])
        return content, [
            {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": call} for call in calls
        ]

    async def chunks(self) -> AsyncIterator[dict[str, Any]]:
        """The answer as it comes; calls come whole, at the end."""
        made = 0
        texts, shown = [""] * self.request.n, [0] * self.request.n
        for i in range(self.request.n):
            yield self.answers.chunk([_delta(i, {"role": "assistant", "content": ""})])
        async for piece in self.exchange.pieces():
            i = piece.index
            made += len(piece.tokens)
            texts[i] += piece.text
            certain = content_length(texts[i]) if self.request.offered else len(texts[i])
            fresh, shown[i] = texts[i][shown[i] : certain], max(shown[i], certain)
            if fresh or piece.tokens:
                yield self._chunk(piece, fresh)
            if piece.reason:
                content, calls = self._apart(texts[i])
                if content[shown[i] :]:
                    yield self.answers.chunk([_delta(i, {"content": content[shown[i] :]})])
                if calls:
                    numbered = [{"index": k, **call} for k, call in enumerate(calls)]
                    yield self.answers.chunk([_delta(i, {"tool_calls": numbered})])
                yield self.answers.chunk([_delta(i, {}, "tool_calls" if calls else piece.reason)])
        if self.request.stream_options and self.request.stream_options.include_usage:
            yield self.answers.chunk([], usage=usage(len(self.ids), made))

    def _chunk(self, piece: Piece, fresh: str) -> dict[str, Any]:
        choice = _delta(piece.index, {"content": fresh})
        if self.request.logprobs:
            choice["logprobs"] = self.answers.chat_logprobs(piece.tokens)
        if self.request.return_token_ids:
            choice["token_ids"] = [token.id for token in piece.tokens]
        return self.answers.chunk([choice])


def _delta(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
