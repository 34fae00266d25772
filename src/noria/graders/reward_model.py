"""A reward model: one that was trained to say yes or no, asked for the probability of yes instead of for its word.

It is a causal language model behind any server of the OpenAI API that tells log-probabilities (`noria serve` does). The
first token of its answer decides: the mass of the tokens that begin the word for yes, over that of both words. A server
that fails, and a model whose likely tokens are neither, leave the outcome unknown.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import BaseModel, Field, ValidationError

from noria.core.config import Checked
from noria.core.errors import EngineError, UserError
from noria.core.remote import ServerConfig, connect, read_key
from noria.core.types import Message, Outcome
from noria.graders.base import ByBlank, Case, Example, Given, need_judge, spec_of

if TYPE_CHECKING:
    import openai

NEEDS: tuple[str, ...] = ("judge",)
MAX_ANSWER_CHARS = 8000


class Reading(Checked):
    """How a verdict is read."""

    yes: str = Field(default="yes", min_length=1, description="word of a good verdict")
    no: str = Field(default="no", min_length=1, description="word of a bad verdict")
    threshold: float | None = Field(
        default=0.5, ge=0, le=1, description="least probability of yes that earns 1, else 0; None = it is the reward"
    )


class ScorerConfig(ServerConfig, Reading):
    """Which server holds the reward model, and how its verdict is read."""

    max_retries: int = Field(default=2, ge=0, le=100, description="further requests after a failed one")
    top: int = Field(default=20, ge=2, le=100, description="likeliest tokens that are asked for")


class Scorer(Protocol):
    """Tells how probable a good verdict is."""

    def probability(self, messages: Sequence[Message]) -> float:
        """Raises EngineError where it cannot be told."""
        ...

    def reward(self, probability: float) -> float: ...
    def close(self) -> None: ...


def reward_of(reading: Reading, probability: float) -> float:
    """The reward of a probability of yes."""
    return probability if reading.threshold is None else float(probability >= reading.threshold)


def share_of_yes(likely: Sequence[tuple[str, float]], yes: str, no: str) -> float:
    """Probability of yes among both words, from tokens with their log-probabilities in nats.

    A token counts for a word that begins with it, blanks and case apart. A word without any token among the likely ones
    counts as nothing.

    Raises:
        EngineError: none of the tokens begins either word, or they are not to be told apart.
    """
    mass = {yes: 0.0, no: 0.0}
    for token, logp in likely:
        start = token.strip().lower()
        begun = [word for word in mass if start and word.lower().startswith(start)]
        if len(begun) == 1 and math.isfinite(logp):
            mass[begun[0]] += math.exp(min(logp, 0.0))
    total = mass[yes] + mass[no]
    if not total > 0:
        raise EngineError(f"the reward model says neither {yes} nor {no}: {[token for token, _ in likely[:5]]}")
    return mass[yes] / total


class _Token(BaseModel):
    token: str
    logprob: float


class _Position(_Token):
    top_logprobs: list[_Token] = Field(default_factory=list)


class _Logprobs(BaseModel):
    content: list[_Position] = Field(min_length=1)


class _Choice(BaseModel):
    logprobs: _Logprobs


class _Completion(BaseModel):
    """What is needed of a server's answer; servers differ in the rest."""

    choices: list[_Choice] = Field(min_length=1)


class ServedScorer:
    """A reward model on a server. May be used from several threads at once."""

    def __init__(self, config: ScorerConfig, client: openai.OpenAI) -> None:
        self.config, self._client = config, client

    def probability(self, messages: Sequence[Message]) -> float:
        """Probability of a good verdict on what `messages` ask.

        Raises:
            EngineError: no answer, no log-probabilities in it, or neither verdict among the likely tokens.
            UserError: the server refuses the key, or knows neither the address nor the model.
        """
        import openai

        # Half of a surrogate pair cannot be sent.
        asked = [{"role": m.role, "content": m.content.encode("utf-8", "replace").decode()} for m in messages]
        try:
            reply = self._client.chat.completions.with_raw_response.create(
                model=self.config.model, messages=cast(Any, asked), max_tokens=1, temperature=1.0, logprobs=True,
                top_logprobs=self.config.top,
            )  # fmt: skip
        except openai.APIStatusError as fault:
            if fault.status_code in (401, 404):
                raise UserError(
                    f"reward_model must name a server that answers: {self.config.base_url} says {fault.status_code} to "
                    f"model {self.config.model!r} - check base_url, model and api_key_env"
                ) from fault
            raise EngineError(f"status {fault.status_code} from the reward model") from fault
        except openai.OpenAIError as fault:
            raise EngineError(f"{type(fault).__name__} from the reward model") from fault
        return share_of_yes(_likely(reply.text), self.config.yes, self.config.no)

    def reward(self, probability: float) -> float:
        """The reward of a probability."""
        return reward_of(self.config, probability)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _likely(body: str) -> list[tuple[str, float]]:
    """Tokens of the first position with their log-probabilities, the sampled one among them once."""
    try:
        first = _Completion.model_validate_json(body).choices[0].logprobs.content[0]
    except ValidationError as fault:
        raise EngineError(f"the reward model tells no log-probabilities: {body[:60]!r}") from fault
    return list({each.token: (each.token, each.logprob) for each in (*first.top_logprobs, first)}.values())


def connected(config: ScorerConfig) -> ServedScorer:
    """A scorer; sends nothing yet.

    Raises:
        UserError: the package `openai` or the key is missing.
    """
    return ServedScorer(config, connect(config, read_key(config), config.max_retries))


class Config(Reading):
    """How a verdict is read, and where the reward model is."""

    server: ScorerConfig | None = Field(
        default=None, description="server that tells log-probabilities; None = the verdict in words of the judge given"
    )


class Spec(Checked):
    """What is asked."""

    question: str = Field(
        default="{prompt}\nAnswer: {answer}\nIs it right?",
        description="text with {prompt} and {answer}, as the reward model was trained on",
    )


EXAMPLES = (Example({}, ("by train",), ("by magic",), "How do I get there?", ("yes", "no")),)


class RewardModel(ByBlank):
    """See the module."""

    def __init__(self, config: Config, given: Given, scorer: Scorer | None) -> None:
        self._config, self._given, self._scorer = config, given, scorer

    async def grade(self, case: Case) -> Outcome:
        """The probability of a good verdict as the part `probability`, and what it earns."""
        spec = spec_of(Spec, case)
        # The prompt and the answer are put in by hand: either may hold braces.
        answer = case.answer[:MAX_ANSWER_CHARS]
        text = "".join(
            {"{prompt}": case.prompt, "{answer}": answer}.get(piece, piece) for piece in _pieces(spec.question)
        )
        messages = (Message("user", text),)
        if self._scorer is not None:
            chance = await asyncio.to_thread(self._scorer.probability, messages)
        else:
            judge = need_judge(self._given, "reward_model")
            chance = share_of_yes([(_first_word(await judge.ask(messages, case.seed)), 0.0)], *self._words())
        return Outcome(reward_of(self._config, chance), {"probability": chance}, f"yes with {chance:.3f}")

    async def close(self) -> None:
        """Close the connections that are its own."""
        if self._scorer is not None:
            self._scorer.close()

    def _words(self) -> tuple[str, str]:
        return self._config.yes, self._config.no


def _pieces(question: str) -> list[str]:
    """The question cut at its two places."""
    pieces = [question]
    for place in ("{prompt}", "{answer}"):
        cut = [piece.partition(place) if piece.count(place) else (piece, "", "") for piece in pieces]
        pieces = [part for parts in cut for part in parts if part]
    return pieces


def _first_word(said: str) -> str:
    words = said.split()
    return words[0].strip(".,!:;\"'*") if words else ""


def build(config: Config, given: Given) -> RewardModel:
    """A grader; asks the configured server, or else the judge that is given.

    Raises:
        UserError: neither is there, or the package `openai` or the key is missing.
    """
    if config.server is not None:
        return RewardModel(config, given, connected(config.server))
    need_judge(given, "reward_model")
    return RewardModel(config, given, None)
