"""Requests as they come over the wire: every known field, its bounds, and no other field."""

from __future__ import annotations

import json
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from noria.server.errors import ApiError, wrong

MAX_STOPS = 16
Kind = TypeVar("Kind", bound="Sampling")
Form = TypeVar("Form", bound="Part")


class Part(BaseModel):
    """Base of everything in a request: unknown fields are refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class StreamOptions(Part):
    """What a stream ends with."""

    include_usage: bool = False


class Sampling(Part):
    """What both endpoints take. Fields that only their neutral value is served for say so in `refuse_unserved`."""

    model: str
    n: int = Field(1, ge=1, le=128)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    prompt_logprobs: int | None = Field(None, ge=0)
    return_token_ids: bool | None = None
    user: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    def refuse_unserved(self) -> None:
        """Raises ApiError where a field asks for what this server does not do."""
        penalties = {"presence_penalty": self.presence_penalty, "frequency_penalty": self.frequency_penalty}
        for name, value in penalties.items():
            if value:
                raise wrong(name, f"{name} is not served here: leave it out, or set it to 0", "unsupported_value")
        if self.logit_bias:
            raise wrong("logit_bias", "logit_bias is not served here: leave it out", "unsupported_value")
        if len(self.stops) > MAX_STOPS or not all(self.stops):
            raise wrong("stop", f"stop must hold up to {MAX_STOPS} strings, none of them empty")
        if self.stream_options and not self.stream:
            raise wrong("stream_options", "stream_options must be set with stream = true only")
        if self.stream and self.prompt_logprobs is not None:
            raise wrong("prompt_logprobs", "prompt_logprobs cannot be streamed: set stream = false")


class CompletionRequest(Sampling):
    """`/v1/completions`. `prompt` is a text, token ids, or a list of either (see `prompts`)."""

    prompt: Any
    max_tokens: int | None = Field(16, ge=0)
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0)
    add_special_tokens: bool | None = None
    best_of: int | None = None
    suffix: str | None = None

    def refuse_unserved(self) -> None:
        super().refuse_unserved()
        if self.suffix:
            raise wrong("suffix", "suffix is not served here: leave it out", "unsupported_value")
        if self.best_of is not None and self.best_of != self.n:
            raise wrong("best_of", f"best_of must be n = {self.n} or left out: got {self.best_of}", "unsupported_value")
        if self.stream and self.echo and self.logprobs is not None:
            raise wrong("echo", "echo with logprobs cannot be streamed: set stream = false")
        if self.max_tokens == 0 and not self.echo and self.prompt_logprobs is None:
            raise wrong("max_tokens", "max_tokens must be at least 1: 0 is for echo or prompt_logprobs only")

    def prompts(self) -> list[str | list[int]]:
        """The prompts one by one. Raises ApiError where `prompt` is none of the four forms."""
        given = self.prompt
        if isinstance(given, str):
            return [given]
        if isinstance(given, list) and given:
            if all(type(item) is int for item in given):
                return [given]
            if all(isinstance(item, str) for item in given) or all(
                isinstance(item, list) and item and all(type(token) is int for token in item) for item in given
            ):
                return list(given)
        raise wrong("prompt", "prompt must be a text, a list of token ids, or a list of either, and not empty")


class FunctionCall(Part):
    """A call as the client saw it; `arguments` is JSON."""

    name: str
    arguments: str


class ToolCall(Part):
    """One entry of `tool_calls`."""

    id: str = ""
    type: Literal["function"] = "function"
    function: FunctionCall


class TextPart(Part):
    """A piece of text in a message."""

    type: Literal["text"]
    text: str


class ChatMessage(Part):
    """One message; fields that are null or empty count as left out, as clients send back what they were given.

    Some clients take a thought out of the content and send it as `reasoning_content`; the other fields below it are
    what they add to messages, and say nothing to a model.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    annotations: list[Any] = Field(default_factory=list)
    provider_specific_fields: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        return {k: v for k, v in data.items() if v not in (None, [])} if isinstance(data, dict) else data

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""

    @property
    def words(self) -> str:
        """The text, behind the thought where a client took that out of it."""
        return f"<think>{self.reasoning_content}</think>{self.text}" if self.reasoning_content else self.text


class Function(Part):
    """A tool's name, meaning and JSON schema of its arguments."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @model_validator(mode="after")
    def _has_named_parameters(self) -> Self:
        if not isinstance((self.parameters or {}).get("properties") or {}, dict):
            raise ValueError("parameters.properties must be an object")
        return self


class ToolSpec(Part):
    """One entry of `tools`."""

    type: Literal["function"]
    function: Function


class ChatRequest(Sampling):
    """`/v1/chat/completions`."""

    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[ToolSpec] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    response_format: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)

    @property
    def offered(self) -> list[ToolSpec]:
        """The tools that the model may call."""
        return [] if self.tool_choice == "none" else self.tools or []

    def refuse_unserved(self) -> None:
        super().refuse_unserved()
        if self.tool_choice not in (None, "auto", "none"):
            raise wrong("tool_choice", "tool_choice must be auto or none: a call cannot be forced", "unsupported_value")
        if self.response_format not in (None, {"type": "text"}):
            raise wrong("response_format", 'response_format must be {"type": "text"}', "unsupported_value")
        if self.top_logprobs is not None and not self.logprobs:
            raise wrong("top_logprobs", "top_logprobs must be set with logprobs = true")


class SessionRequest(Part):
    """`POST /sessions`: a name, one is made up where it is left out, and what the rollout is about."""

    id: str | None = None
    task: str = ""


class WeightsRequest(Part):
    """`POST /v1/weights`: the name of a checkpoint in the folder of `--updates`, and what its weights must hash to."""

    folder: str = Field(min_length=1)
    sha256: str | None = None


class FinishRequest(Part):
    """`POST /sessions/<id>/finish`: the reward in [0, 1], or none where nobody knows, and why."""

    reward: float | None = Field(None, ge=0, le=1)
    reason: str = ""
    parts: dict[str, float] = Field(default_factory=dict)
    stop: str = ""

    @model_validator(mode="before")
    @classmethod
    def _whole_numbers(cls, data: Any) -> Any:
        return {**data, "reward": float(data["reward"])} if isinstance(data, dict) and _is_whole(data) else data


def _is_whole(data: dict[str, Any]) -> bool:
    return type(data.get("reward")) is int


def parse(kind: type[Kind], body: bytes) -> Kind:
    """A request of this kind.

    Raises:
        ApiError: it is no JSON, or a field is unknown, missing or out of bounds.
    """
    request = read(kind, body)
    request.refuse_unserved()
    return request


def read(kind: type[Form], body: bytes) -> Form:
    """A JSON object of this form.

    Raises:
        ApiError: it is no JSON, or a field is unknown, missing or out of bounds.
    """
    try:
        data = json.loads(body, parse_constant=_no_constant)
        if b"\\ud" in body.lower():  # half a surrogate pair is a text that no tokenizer can read
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as fault:
        raise ApiError(400, f"the body must be JSON: {fault}", code="invalid_json") from fault
    if not isinstance(data, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    try:
        return kind.model_validate(data)
    except ValidationError as fault:
        raise _first(fault) from fault


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _first(fault: ValidationError) -> ApiError:
    """The first thing that is wrong, by its place."""
    error = fault.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return wrong(place, f"unknown field {place!r}: remove it", "unknown_parameter")
    if error["type"] == "missing":
        return wrong(place, f"{place!r} must be given", "missing_required_parameter")
    return wrong(place, f"{place!r} is wrong: {error['msg'][0].lower()}{error['msg'][1:]}")
