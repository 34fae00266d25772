"""The served checkpoint: its tokenizer, how a conversation becomes tokens, and what limits it has."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from noria.core.errors import UserError
from noria.engines.serving import Settings
from noria.server.calls import written
from noria.server.errors import ApiError, wrong
from noria.server.schema import ChatRequest, Sampling
from noria.tokens.renderer import Renderer

SEEDS = 1 << 62
#: Distance between the seeds of the choices of one request (2^62 divided by the golden ratio, odd).
STRIDE = 0x278DDE6E5FD29F05


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a request: `max_len` tokens with the answer, `max_logprobs` alternatives per token."""

    max_len: int
    max_logprobs: int = 20


class Served:
    """See the module. `name` is what clients ask for."""

    def __init__(self, name: str, tokenizer: Any, end_ids: Sequence[int], limits: Limits) -> None:
        self.name, self.tokenizer, self.limits = name, tokenizer, limits
        self.end_ids = frozenset(end_ids)
        self._renderer: Renderer | None = None
        try:
            self._renderer = Renderer(tokenizer)
        except UserError:
            pass  # a template that rewrites history is no obstacle to a chat

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included."""
        return str(self.tokenizer.decode(list(ids)))

    def prompt_ids(self, prompt: str | Sequence[int], special: bool) -> tuple[int, ...]:
        """Ids of a text or of ids that were given.

        Raises:
            ApiError: it is empty, or an id is none of the vocabulary.
        """
        if isinstance(prompt, str):
            ids = tuple(self.tokenizer.encode(prompt, add_special_tokens=special))
        else:
            ids, size = tuple(prompt), len(self.tokenizer)
            if bad := next((token for token in ids if not 0 <= token < size), None):
                raise wrong("prompt", f"prompt must hold token ids from 0 to {size - 1}: got {bad}")
        if not ids:
            raise wrong("prompt", "prompt must hold at least one token")
        return ids

    def chat_ids(self, request: ChatRequest) -> tuple[int, ...]:
        """Ids of a conversation up to where the assistant speaks.

        After the first prompt, turns of assistant and tool are put together as rollouts put them, piece by piece; any
        other conversation is rendered by the template as a whole.

        Raises:
            ApiError: the model has no chat template, or its template refuses the messages.
        """
        said = [
            {"role": m.role.replace("developer", "system"), "content": written(m, f"messages.{i}")}
            for i, m in enumerate(request.messages)
        ]
        if said[-1]["role"] == "assistant":
            raise wrong("messages", "messages must not end with the assistant: it is the one to speak")
        tools = [tool.model_dump(exclude_none=True) for tool in request.offered] or None
        roles = [message["role"] for message in said]
        first = roles.index("assistant") if "assistant" in roles else len(said)
        turns = said[first:]
        if self._renderer is None or roles[first:] != ["assistant", "tool"] * (len(turns) // 2):
            return self._rendered(said, tools)
        ids = self._rendered(said[:first], tools)
        for message, seen in zip(turns[::2], turns[1::2], strict=True):
            ids += self._renderer.message(message["content"]) + self._renderer.observation(seen["content"]).ids
        return ids

    def _rendered(self, messages: Sequence[dict[str, str]], tools: list[dict[str, Any]] | None) -> tuple[int, ...]:
        if not self.tokenizer.chat_template:
            raise ApiError(400, f"the model {self.name!r} has no chat template: use /v1/completions", "messages")
        try:
            text = self.tokenizer.apply_chat_template(
                list(messages), tools=tools, add_generation_prompt=True, tokenize=False
            )
        except TemplateError as fault:
            raise wrong("messages", f"the model's chat template refuses the messages: {fault}") from fault
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def room(self, ids: Sequence[int], wanted: int | None, param: str) -> int:
        """Tokens that may follow the prompt: what is wanted, or all that fit.

        Raises:
            ApiError: prompt and answer together are too long.
        """
        room = self.limits.max_len - len(ids)
        if room < (1 if wanted is None else wanted):
            asked = "" if wanted is None else f" and {wanted} for the answer"
            raise wrong(
                param,
                f"the model takes {self.limits.max_len} tokens: got {len(ids)} in the prompt{asked} - shorten it, or "
                "lower max_tokens",
                "context_length_exceeded",
            )
        return room if wanted is None else wanted

    def settings(self, request: Sampling, choice: int, top: int | None, param: str = "logprobs") -> Settings:
        """How one choice is sampled, `top` alternatives reported. Without a seed the draws are fresh ones.

        Raises:
            ApiError: more alternatives are asked for than the server gives.
        """
        for name, value in ((param, top), ("prompt_logprobs", request.prompt_logprobs)):
            if value is not None and value > self.limits.max_logprobs:
                raise wrong(name, f"{name} must be at most {self.limits.max_logprobs}: got {value}")
        seed = secrets.randbits(62) if request.seed is None else request.seed + choice * STRIDE
        return Settings(
            seed=seed % SEEDS,
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top=top or 0,
        )


def read_end_ids(folder: Path, tokenizer: Any) -> tuple[int, ...]:
    """The tokens that end a turn: those of the generation config, and the tokenizer's.

    Raises:
        UserError: there is none.
    """
    path = folder / "generation_config.json"
    named = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id") if path.is_file() else None
    ids = [*(named if isinstance(named, list) else [named]), tokenizer.eos_token_id]
    found = tuple(dict.fromkeys(int(token) for token in ids if token is not None))
    if not found:
        raise UserError(
            f"MODEL must name an end-of-turn token: {str(folder)!r} has none - set eos_token in its tokenizer"
        )
    return found
