"""`/v1/completions`: text or token ids in; text, token ids and log-probabilities out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from noria.engines.serving import Token
from noria.server.answers import Answers, Choice, Piece, usage
from noria.server.exchange import Exchange
from noria.server.loop import DecodingLoop
from noria.server.model import Served
from noria.server.schema import CompletionRequest


class Completion:
    """One request; begun when made.

    Raises:
        ApiError: the request cannot be served.
    """

    def __init__(self, served: Served, loop: DecodingLoop, request: CompletionRequest) -> None:
        self.request = request
        self.answers = Answers(served, "text_completion", request)
        self.exchange = Exchange(loop, served, request.stops)
        self.prompts = request.prompts()
        special = request.add_special_tokens is not False
        asked = [request.prompt_logprobs, request.logprobs if request.echo else None]
        wanted = [top for top in asked if top is not None]
        for prompt in self.prompts:
            ids = served.prompt_ids(prompt, special)
            max_new = served.room(ids, request.max_tokens, "prompt")
            for choice in range(request.n):
                scored = (wanted and choice == 0) or max_new == 0
                settings = served.settings(request, choice, request.logprobs)
                self.exchange.add(ids, max_new, settings, max(wanted, default=0) if scored else None)
        self._texts = [p if isinstance(p, str) else served.decode(p) for p in self.prompts]
        self.exchange.begin()

    async def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        found = await self.exchange.choices()
        made = sum(len(choice.tokens) for choice in found)
        return self.answers.whole([self._choice(i, c) for i, c in enumerate(found)], self._prompt_tokens(), made)

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        request, ids = self.request, self.exchange.jobs[index].ids
        first = index - index % request.n
        scores = self.exchange.scores.get(first, ())
        shown: list[Token | int] = list(choice.tokens)
        text, offset = choice.text, 0
        if request.echo:
            text = self._texts[index // request.n] + text
            shown = [ids[0], *_cut(scores, request.logprobs or 0), *choice.tokens]
        answer: dict[str, Any] = {
            "index": index,
            "text": text,
            "logprobs": None if request.logprobs is None else self.answers.legacy_logprobs(shown, offset),
            "finish_reason": choice.reason,
        }
        if request.prompt_logprobs is not None:
            answer["prompt_logprobs"] = self.answers.prompt_logprobs(_cut(scores, request.prompt_logprobs))
        if request.return_token_ids:
            answer |= {"prompt_token_ids": list(ids), "token_ids": [token.id for token in choice.tokens]}
        return answer

    async def chunks(self) -> AsyncIterator[dict[str, Any]]:
        """The answer as it comes."""
        request = self.request
        made = 0
        offsets = dict.fromkeys(range(len(self.exchange.jobs)), 0)
        if request.echo:
            for i in offsets:
                offsets[i] = len(self._texts[i // request.n])
                yield self._chunk(Piece(i, self._texts[i // request.n]), 0)
        async for piece in self.exchange.pieces():
            made += len(piece.tokens)
            yield self._chunk(piece, offsets[piece.index])
            offsets[piece.index] += sum(len(self.answers.name(token.id)) for token in piece.tokens)
        if request.stream_options and request.stream_options.include_usage:
            yield self.answers.chunk([], usage=usage(self._prompt_tokens(), made))

    def _chunk(self, piece: Piece, offset: int) -> dict[str, Any]:
        request = self.request
        choice: dict[str, Any] = {
            "index": piece.index,
            "text": piece.text,
            "logprobs": None if request.logprobs is None else self.answers.legacy_logprobs(piece.tokens, offset),
            "finish_reason": piece.reason,
        }
        if request.return_token_ids:
            choice["token_ids"] = [token.id for token in piece.tokens]
        return self.answers.chunk([choice])

    def _prompt_tokens(self) -> int:
        return sum(len(job.ids) for job in self.exchange.jobs[:: self.request.n])


def _cut(tokens: Sequence[Token], top: int) -> list[Token]:
    """The same tokens with at most `top` alternatives."""
    return [replace(token, top=token.top[:top]) for token in tokens]
