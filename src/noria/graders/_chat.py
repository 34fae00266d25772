"""A judge behind any server that speaks `/v1/chat/completions`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, Field, ValidationError

from noria.core.errors import EngineError, UserError
from noria.core.remote import ServerConfig, connect, read_key
from noria.core.types import Message
from noria.graders._fences import whole

if TYPE_CHECKING:
    import openai


class JudgeConfig(ServerConfig):
    """Which server judges, and how."""

    max_retries: int = Field(default=2, ge=0, le=100, description="further requests after a failed one")
    max_output_tokens: int = Field(default=512, ge=1, description="length of an opinion")
    temperature: float = Field(default=0.0, ge=0, le=2, description="sampling temperature of an opinion")
    concurrency: int = Field(default=16, ge=1, le=256, description="requests in flight at most")


class _Text(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Text


class _Completion(BaseModel):
    """What is needed of a server's answer; servers differ in the rest."""

    choices: list[_Choice] = Field(min_length=1)


class ChatJudge:
    """The protocol `Judge` over HTTP. Its requests run in threads of its own.

    `role` is what it is called where it fails: the option that configures it.
    """

    def __init__(self, config: JudgeConfig, client: openai.OpenAI, role: str = "judge") -> None:
        self._config, self._client, self._role = config, client, role
        self._threads = ThreadPoolExecutor(config.concurrency, thread_name_prefix="noria-judge")

    async def ask(self, messages: Sequence[Message], seed: int) -> str:
        """The text of the answer.

        Raises:
            EngineError: there is none.
            UserError: the server refuses the key, or knows neither the address nor the model.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.answer, tuple(messages), seed)

    async def close(self) -> None:
        """Close the connections; what is under way ends within the time of a request."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def answer(self, messages: Sequence[Message], seed: int) -> str:
        """What `ask` gives, for who waits in a thread of his own; raises the same."""
        import openai

        config, role = self._config, self._role
        asked = [{"role": message.role, "content": whole(message.content)} for message in messages]
        try:
            reply = self._client.chat.completions.with_raw_response.create(
                model=config.model,
                messages=cast(Any, asked),
                max_tokens=config.max_output_tokens, temperature=config.temperature, seed=seed,
            )  # fmt: skip
        except openai.APIStatusError as fault:
            if fault.status_code in (401, 403, 404):
                raise UserError(
                    f"{role} must name a server that answers: {config.base_url} says {fault.status_code} to model "
                    f"{config.model!r} - check {role}.base_url, {role}.model and {role}.api_key_env"
                ) from fault
            raise EngineError(f"status {fault.status_code} from the {role}") from fault
        except openai.OpenAIError as fault:
            raise EngineError(f"{type(fault).__name__} from the {role}") from fault
        try:
            said = _Completion.model_validate_json(reply.text).choices[0].message.content
        except ValidationError as fault:
            raise EngineError(f"the {role}'s answer is not a chat completion: {reply.text[:60]!r}") from fault
        if not said:
            raise EngineError(f"the {role}'s answer is empty")
        return said


def connected(config: JudgeConfig, role: str = "judge") -> ChatJudge:
    """A judge, or another model that answers in words; sends nothing yet.

    Raises:
        UserError: the package `openai` or the key is missing.
    """
    return ChatJudge(config, connect(config, read_key(config), config.max_retries), role)
