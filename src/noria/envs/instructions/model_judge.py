"""A model as the last judge, behind any server that speaks `/v1/chat/completions`.

It is asked only about answers that keep every constraint and that the embedded rules let pass. It answers yes or no;
whatever else happens (no server, a broken connection, an answer that is neither) the outcome is unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import BaseModel, Field, ValidationError

from noria.core.errors import EngineError, UserError
from noria.core.remote import ServerConfig, connect, read_key

if TYPE_CHECKING:
    import openai

_QUESTION = (
    "Somebody was asked:\n{prompt}\n\nThe answer was:\n{answer}\n\n"
    "All rules that can be counted were checked and are kept; do not check them again. Is the answer language about "
    "the topic that makes sense, and not a trick that only keeps the rules? Say only yes or no."
)
_VERDICT = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_MAX_ANSWER_CHARS = 8000


class Judge(Protocol):
    """Whether an answer is a sensible one."""

    def accepts(self, prompt: str, answer: str) -> bool:
        """Raises EngineError where it cannot be told."""
        ...

    def close(self) -> None: ...


class JudgeConfig(ServerConfig):
    """Which server judges, and how."""

    max_retries: int = Field(default=2, ge=0, le=100, description="further requests after a failed one")
    max_output_tokens: int = Field(default=8, ge=1, description="length of the verdict")
    temperature: float = Field(default=0.0, ge=0, le=2, description="sampling temperature of the verdict")


class _Text(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Text


class _Completion(BaseModel):
    """What is needed of a server's answer; servers differ in the rest."""

    choices: list[_Choice] = Field(min_length=1)


class ModelJudge:
    """See the module. May be used from several threads at once."""

    def __init__(self, config: JudgeConfig, client: openai.OpenAI) -> None:
        self._config, self._client = config, client

    def accepts(self, prompt: str, answer: str) -> bool:
        """Whether the model says yes.

        Raises:
            EngineError: no answer, or neither yes nor no.
            UserError: the server refuses the key, or knows neither the address nor the model.
        """
        import openai

        asked = _QUESTION.format(prompt=prompt, answer=answer[:_MAX_ANSWER_CHARS])
        try:
            reply = self._client.chat.completions.with_raw_response.create(
                model=self._config.model, messages=cast(Any, [{"role": "user", "content": asked}]),
                max_tokens=self._config.max_output_tokens, temperature=self._config.temperature,
            )  # fmt: skip
        except openai.APIStatusError as fault:
            if fault.status_code in (401, 404):
                raise UserError(
                    f"judge must name a server that answers: {self._config.base_url} says {fault.status_code} to model "
                    f"{self._config.model!r} - check judge.base_url, judge.model and judge.api_key_env"
                ) from fault
            raise EngineError(f"status {fault.status_code} from the judge") from fault
        except openai.OpenAIError as fault:
            raise EngineError(f"{type(fault).__name__} from the judge") from fault
        return _verdict(reply.text)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _verdict(body: str) -> bool:
    try:
        said = _Completion.model_validate_json(body).choices[0].message.content or ""
    except ValidationError as fault:
        raise EngineError(f"the judge's answer is not a chat completion: {body[:60]!r}") from fault
    found = _VERDICT.match(said)
    if not found:
        raise EngineError(f"the judge says neither yes nor no: {said[:60]!r}")
    return found[1].lower() == "yes"


def build(config: JudgeConfig) -> ModelJudge:
    """A judge; sends nothing yet.

    Raises:
        UserError: the package `openai` or the key is missing.
    """
    return ModelJudge(config, connect(config, read_key(config), config.max_retries))
