"""A chat with any server that speaks `/v1/chat/completions`; proposes, never rolls out.

This is not a rollout engine: it gives text, without the token ids and log-probabilities that training needs,
and a recipe that names it as `student.engine` is refused. It talks through the `openai` package (the extra
`openai`), which repeats requests after timeouts, broken connections, rate limits and server errors, and waits
as long as the server asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from pydantic import BaseModel, Field, ValidationError

from noria.core.errors import EngineError, UserError
from noria.core.remote import ServerConfig, connect, read_key
from noria.core.types import Message

CHATS = True
SAMPLES_TOKENS = False


class Config(ServerConfig):
    """Any OpenAI-compatible server, for text."""

    type: Literal["openai"] = "openai"
    max_retries: int = Field(
        3, ge=0, description="further requests after a failed one, further questions after a useless answer"
    )
    max_output_tokens: int = Field(800, ge=1, description="length of an answer")
    token_limit_key: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="what the server calls that length; newer reasoning models want the second"
    )
    temperature: float = Field(0.2, ge=0, le=2, description="sampling temperature; some reasoning models take 1.0 only")
    concurrency: int = Field(8, ge=1, le=256, description="requests in flight at most")


class _Text(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Text


class _Completion(BaseModel):
    """What is needed of a server's answer; servers differ in the rest."""

    choices: list[_Choice] = Field(min_length=1)


class ChatClient:
    """See the module. May be used from several threads at once."""

    def __init__(self, config: Config, key: str) -> None:
        self.config, self._key = config, key
        self._client = connect(config, key, config.max_retries)

    def complete(self, messages: Sequence[Message], max_tokens: int, temperature: float) -> str:
        """The text of the answer, or of the refusal; "" where the model said nothing.

        Raises:
            EngineError: no answer within the retries, or not a chat completion.
            UserError: the server does not accept the key, or knows neither the address nor the model.
        """
        import openai

        said = cast(Any, [{"role": message.role, "content": message.content} for message in messages])
        limit: dict[str, Any] = {self.config.token_limit_key: max_tokens}
        try:
            raw = self._client.chat.completions.with_raw_response.create(
                model=self.config.model, messages=said, temperature=temperature, **limit
            )
        except openai.APIStatusError as fault:
            raise self._status(fault.status_code, fault.message) from fault
        except openai.OpenAIError as fault:
            raise EngineError(f"{type(fault).__name__} at {self.config.base_url}") from fault
        return _answer(raw.text)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _status(self, status: int, message: str) -> EngineError | UserError:
        config = self.config
        if status == 401:
            return UserError(
                f"api_key_env must name a variable with a valid key: {config.base_url} refused that of "
                f"{config.api_key_env} - set {config.api_key_env}, or name another variable"
            )
        if status == 404:
            return UserError(
                f"base_url and model must exist: {config.base_url} answers 404 to model {config.model!r} - "
                f"compare with the list at {config.base_url.rstrip('/')}/models"
            )
        told = message.replace(self._key, "***") if self._key else message
        return EngineError(f"status {status} from {config.base_url}: {told[:200]}")


def _answer(body: str) -> str:
    try:
        message = _Completion.model_validate_json(body).choices[0].message
    except ValidationError as fault:
        raise EngineError(f"the server's answer is not a chat completion: {body[:80]!r}") from fault
    return message.content or message.refusal or ""


def ready(config: Config) -> str:
    """The key, "" where the server needs none; looks at the environment alone.

    Raises:
        UserError: the variable that should hold it is not set.
    """
    return read_key(config)


def build(config: Config) -> ChatClient:
    """A client; sends nothing yet.

    Raises:
        UserError: the package `openai` or the key is missing.
    """
    return ChatClient(config, ready(config))
