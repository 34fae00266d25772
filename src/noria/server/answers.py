"""Answers in the form of the OpenAI API, with the extensions that vLLM made common for prompts and token ids."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from noria import __version__
from noria.engines.serving import Token
from noria.server.model import Served
from noria.server.schema import Sampling

#: JSON knows no infinity; a token that the policy excludes is reported with this.
LEAST = -9999.0


@dataclass(slots=True)
class Piece:
    """What became certain of one choice: text, its tokens, and at the end the reason."""

    index: int
    text: str
    tokens: tuple[Token, ...] = ()
    reason: str | None = None


@dataclass(slots=True)
class Choice:
    """A whole choice."""

    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    reason: str = ""

    def add(self, piece: Piece) -> None:
        """Take the next piece."""
        self.text += piece.text
        self.tokens += piece.tokens
        self.reason = piece.reason or self.reason


class Answers:
    """Builds the parts of one answer; `kind` is its `object`, without `.chunk`."""

    def __init__(self, served: Served, kind: str, request: Sampling) -> None:
        self.served, self.kind, self._request = served, kind, request
        self.id = f"{'chatcmpl' if kind.startswith('chat') else 'cmpl'}-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self._told = False

    def whole(self, choices: list[dict[str, Any]], prompt: int, answer: int, **more: Any) -> dict[str, Any]:
        """The answer with its usage in tokens."""
        return {**self._head(self.kind), "choices": choices, "usage": usage(prompt, answer), **more}

    def chunk(self, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """A piece of a stream."""
        kind = f"{self.kind}.chunk" if self.kind.startswith("chat") else self.kind
        return {**self._head(kind), "choices": choices, **more}

    def _head(self, kind: str) -> dict[str, Any]:
        head = {
            "id": self.id, "object": kind, "created": self.created, "model": self.served.name,
            "system_fingerprint": f"noria-{__version__}",
        }  # fmt: skip
        if not self._told:
            self._told = True
            head["noria"] = self._policies()
        return head

    def _policies(self) -> dict[str, Any]:
        """How tokens were drawn, and which policy the log-probabilities are of, so that nobody has to guess."""
        request = self._request
        heat = 1.0 if request.temperature is None else request.temperature
        return {
            "sampling": {"temperature": heat, "top_p": request.top_p or 1.0},
            "logprobs": {"temperature": heat or 1.0, "top_p": 1.0},
            "prompt_logprobs": {"temperature": 1.0, "top_p": 1.0},
        }

    def legacy_logprobs(self, tokens: Sequence[Token | int], offset: int) -> dict[str, Any]:
        """`logprobs` of a completion. A bare id stands for a token without a probability, the first of a prompt."""
        names = [self.name(token if isinstance(token, int) else token.id) for token in tokens]
        offsets = [offset]
        for name in names:
            offsets.append(offsets[-1] + len(name))
        known = [None if isinstance(token, int) else token for token in tokens]
        return {
            "tokens": names,
            "token_logprobs": [finite(token.logp) if token else None for token in known],
            "top_logprobs": [
                {self.name(i): finite(p) for i, p in [*reversed(token.top), (token.id, token.logp)]} if token else None
                for token in known
            ],
            "text_offset": offsets[:-1],
        }

    def chat_logprobs(self, tokens: Sequence[Token]) -> dict[str, Any]:
        """`logprobs` of a chat."""

        def entry(token: int, logp: float) -> dict[str, Any]:
            name = self.name(token)
            return {"token": name, "logprob": finite(logp), "bytes": None if "�" in name else list(name.encode())}

        return {
            "content": [
                {**entry(token.id, token.logp), "top_logprobs": [entry(i, p) for i, p in token.top]} for token in tokens
            ],
            "refusal": None,
        }

    def prompt_logprobs(self, tokens: Sequence[Token]) -> list[dict[str, Any] | None]:
        """vLLM's form: null for the first token, then {id: {logprob, rank, decoded_token}} for each."""
        out: list[dict[str, Any] | None] = [None]
        for token in tokens:
            entries = {
                str(i): {"logprob": finite(p), "rank": rank, "decoded_token": self.name(i)}
                for rank, (i, p) in enumerate(token.top, start=1)
            }
            own = {"logprob": finite(token.logp), "rank": token.rank, "decoded_token": self.name(token.id)}
            out.append({str(token.id): own} | {key: value for key, value in entries.items() if key != str(token.id)})
        return out

    def name(self, token: int) -> str:
        """A token as text."""
        return self.served.decode([token])


def usage(prompt: int, answer: int) -> dict[str, int]:
    """Counts in tokens."""
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def finite(value: float) -> float:
    """A number that JSON can hold."""
    return value if math.isfinite(value) else LEAST
