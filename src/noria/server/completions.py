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
from noria.server.sessions import Asked, Session


class Completion:
    """One request; begun when made. With a `session` each of its prompts is recorded as a call.

    Raises:
        ApiError: the request cannot be served.
    """

    def __init__(
        self,
        served: Served,
        loop: DecodingLoop,
        request: CompletionRequest,
        session: Session | None = None,
        is_retry: bool = False,
    ) -> None:
        request = request if session is None else session.shaped(request)
        self.request, self.session = request, session
        self.answers = Answers(served, "text_completion", request)
        self.exchange = Exchange(loop, served, request.stops)
        self.prompts = request.prompts()
        self._asked: list[Asked] = []
        special = request.add_special_tokens is not False
        asked = [request.prompt_logprobs, request.logprobs if request.echo else None]
        wanted = [top for top in asked if top is not None]
        for prompt in self.prompts:
            ids = served.prompt_ids(prompt, special)
            max_new = served.room(ids, request.max_tokens, "prompt")
            if session is not None and max_new:
                self._asked.append(session.completion(request, ids, is_retry))
                max_new = session.room(self._asked[-1], max_new, "prompt")
            for choice in range(request.n):
                scored = (wanted and choice == 0) or max_new == 0
                settings = served.settings(request, choice, request.logprobs)
                self.exchange.add(ids, max_new, settings, max(wanted, default=0) if scored else None)
        self._texts = [p if isinstance(p, str) else served.decode(p) for p in self.prompts]
        self.exchange.begin()

    async def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        found = await self.exchange.choices()
        self._record(found)
        made = sum(len(choice.tokens) for choice in found)
        return self.answers.whole([self._choice(i, c) for i, c in enumerate(found)], self._prompt_tokens(), made)

    def _record(self, found: list[Choice]) -> None:
        """Keep what was sampled; a prompt that was scored alone is no call."""
        n = self.request.n
        for k, asked in enumerate(self._asked):
            assert self.session is not None
            mine = found[k * n : k * n + n]
            self.session.record(asked, mine, [(choice.text, []) for choice in mine])

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
            answer["versions"] = [token.version for token in choice.tokens]
        return answer

    async def chunks(self) -> AsyncIterator[dict[str, Any]]:
        """The answer as it comes."""
        request = self.request
        found = [Choice() for _ in self.exchange.jobs]
        held: list[dict[str, Any]] = []
        offsets = dict.fromkeys(range(len(self.exchange.jobs)), 0)
        if request.echo:
            for i in offsets:
                offsets[i] = len(self._texts[i // request.n])
                yield self._chunk(Piece(i, self._texts[i // request.n]), 0)
        async for piece in self.exchange.pieces():
            found[piece.index].add(piece)
            chunk = self._chunk(piece, offsets[piece.index])
            if piece.reason and self.session is not None:  # nobody may go on from an answer before it is recorded
                held.append(chunk)
            else:
                yield chunk
            offsets[piece.index] += sum(len(self.answers.name(token.id)) for token in piece.tokens)
        self._record(found)
        for chunk in held:
            yield chunk
        if request.stream_options and request.stream_options.include_usage:
            made = sum(len(choice.tokens) for choice in found)
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
