"""A model on a server that scores the student's own tokens: any that returns log-probabilities of a prompt.

Token ids go over the wire, never text, so teacher and student must share a vocabulary; `check` finds out before
anything is trained. What cannot be scored within its budget stays unknown: it teaches nothing, and is never a 0.

Log-probabilities of prompts are those at temperature 1, which is what such servers give.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field

from noria.core.errors import EngineError, NoriaError, UserError
from noria.core.remote import ServerConfig, after_s, connect, passes, read_key, refusal
from noria.teachers._answers import Fault, Partial, TokenScores, read_ids, read_scores, read_words
from noria.teachers._scoring import Student
from noria.tokens.renderer import Renderer

T = TypeVar("T")
Reader = Callable[[Mapping[str, Any]], T]

SCORES_TOKENS = True
#: The server keeps its hidden states, so losses over the whole vocabulary cannot have them.
GIVES_STATES = False
#: It tells its likeliest tokens, which is enough for losses over these and one bucket.
GIVES_TOP = True

#: Texts whose ids tell tokenizers apart: words, indentation, digits, characters of several bytes, markup.
PROBES = (
    "The quick brown fox jumps over the lazy dog.",
    "def f(x):\n    return x ** 2 - 17\n",
    "naïve – 12,345 € 漢字",
    '<call name="edit"><line>3</line></call>',
)


class Config(ServerConfig):
    """A teacher that scores tokens over HTTP."""

    type: Literal["model"] = "model"
    ask: Literal["prompt_logprobs", "echo"] = Field(
        "prompt_logprobs",
        description="how log-probabilities of a prompt are asked for: prompt_logprobs as vLLM and `noria serve` have "
        "it, echo as in older OpenAI completions and SGLang (no alternatives then)",
    )
    concurrency: int = Field(8, ge=1, le=256, description="requests in flight at most")
    max_retries: int = Field(6, ge=0, description="further requests for a sequence after a failed or partial answer")
    budget_s: float = Field(
        120.0, gt=0, description="longest time for one sequence, waits included; then it is unknown"
    )
    wait_s: float = Field(
        0.5, gt=0, description="first wait before a repetition, doubled each time; a server's wish wins"
    )
    max_unknown: float = Field(0.2, ge=0, le=1, description="share of sequences without a score that stops the phase")


class ModelTeacher:
    """See the module. May be used from several threads at once."""

    def __init__(self, config: Config, key: str) -> None:
        self.config, self._key = config, key
        self._client = connect(config, key, max_retries=0)

    #: Its weights are on the server.
    folder: Path | None = None
    gold = False

    def tick(self, step: int, student: Student) -> None:
        """It does not move."""

    def data(self) -> bytes:
        """Raises UserError: there are no weights here."""
        raise UserError(
            'type = "model" gives log-probabilities of its likeliest tokens alone: losses over the whole vocabulary, '
            'overlap_every and a takeover need the weights - use type = "frozen" with the checkpoint\'s folder'
        )

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing to restore."""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def score(self, rows: Sequence[Sequence[int]], top: int = 0) -> list[TokenScores | None]:
        """Scores of each row of token ids, None where they stay unknown; the `top` likeliest tokens at each besides.

        Raises:
            EngineError: more rows than `max_unknown` allows have no score.
            UserError: the server refuses what no repetition changes.
        """
        if top and self.config.ask == "echo":
            raise UserError(f"ask must be prompt_logprobs for top-{top} scores: echo gives no ids - set ask")
        allowed = int(self.config.max_unknown * len(rows))
        lock, lost = threading.Lock(), list[str]()

        def one(ids: Sequence[int]) -> TokenScores | None:
            if len(lost) > allowed:
                return None  # the outcome is decided: no more budgets are spent
            found = self._within_budget(ids, top, lambda answer: read_scores(answer, ids, self.config.ask, top))
            if isinstance(found, Fault):
                with lock:
                    lost.append(str(found))
                return None
            # Servers add the token itself where it is not among its likeliest.
            return replace(found, top=tuple(best[:top] for best in found.top))

        pool = ThreadPoolExecutor(self.config.concurrency)
        try:
            scores = list(pool.map(one, rows))
        finally:
            pool.shutdown(cancel_futures=True)
        if len(lost) > allowed:
            raise EngineError(
                f"more than max_unknown = {self.config.max_unknown} of {len(rows)} sequences have no score from "
                f"{self.config.base_url}; the last reason: {lost[-1]}"
            )
        return scores

    def _within_budget(
        self, prompt: Sequence[int] | str, top: int, read: Reader[T], hasty: bool = False, **more: Any
    ) -> T | Fault:
        """What `read` makes of an answer, or the last of the faults that used the budget up.

        `hasty` takes a second partial answer for what the server always gives.
        """
        config = self.config
        deadline = time.monotonic() + config.budget_s
        wait, last = config.wait_s, Fault("nothing was asked")
        for turn in range(1 + config.max_retries):
            try:
                return read(self._ask(prompt, top, deadline - time.monotonic(), **more))
            except Fault as fault:
                last = fault
            pause = wait if last.after_s is None else last.after_s
            wait *= 2
            if turn == config.max_retries or (hasty and turn and isinstance(last, Partial)):
                break
            if time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)
        return last

    def _ask(self, prompt: Sequence[int] | str, top: int, left_s: float, **more: Any) -> Mapping[str, Any]:
        """One request; the answer's JSON."""
        import openai

        config = self.config
        given = prompt if isinstance(prompt, str) else list(prompt)
        if config.ask == "echo":
            options: dict[str, Any] = {"echo": True, "logprobs": 1}
        else:
            options = {"extra_body": {"prompt_logprobs": top, **more}}
        try:
            raw = self._client.completions.with_raw_response.create(
                model=config.model,
                prompt=given,
                max_tokens=1,
                timeout=max(0.01, min(config.timeout_s, left_s)),
                **options,
            )
        except openai.APIStatusError as fault:
            raise self._status(fault.status_code, fault.message, fault.response.headers) from fault
        except openai.OpenAIError as fault:
            raise Fault(f"{type(fault).__name__} at {config.base_url}") from fault
        try:
            data = json.loads(raw.text)
        except ValueError as fault:
            raise Partial("the answer is no JSON") from fault
        if not isinstance(data, dict):
            raise Partial("the answer is no JSON object")
        return data

    def _status(self, status: int, message: str, headers: Mapping[str, str]) -> NoriaError:
        config = self.config
        if passes(status):
            return Fault(f"status {status} from {config.base_url}", after_s(headers))
        must = f"a server that scores token ids with ask = {config.ask!r}"
        fix = "change ask, or serve the model with `noria serve` or vLLM"
        return refusal(config, self._key, config.base_url, status, message, must, fix)

    def check(self, renderer: Renderer, longest: int, top: int = 0) -> None:
        """Refuse a server that cannot be the teacher of a student with this renderer.

        Args:
            longest: the longest sequence in tokens that will be scored.
            top: likeliest tokens that will be asked for at each.

        Raises:
            UserError: the model is not there, takes shorter sequences only, gives no log-probabilities of prompts or
                fewer likeliest tokens, or has another vocabulary.
            EngineError: the server does not answer within the budget of one sequence.
        """
        self._check_card(longest)
        ids = renderer.encode(PROBES[0])
        self._probed(ids, lambda answer: read_scores(answer, ids, self.config.ask))
        if top:
            self._check_top(ids, top, renderer.vocab_size)
        if self.config.ask == "echo":
            self._check_words(renderer)
        else:
            self._check_ids(renderer)

    def _check_top(self, ids: Sequence[int], top: int, vocabulary: int) -> None:
        """The server must give as many of its likeliest tokens as are wanted."""
        why = f"a vocabulary of {vocabulary} has no more"
        if top <= vocabulary:
            try:
                self._probed(ids, lambda answer: read_scores(answer, ids, self.config.ask, top), top)
                return
            except UserError as fault:
                why = str(fault)
        raise UserError(
            f"model must give the {top} likeliest tokens that a loss of the phase reads: {why} - lower top_k of the "
            "loss, or serve with a higher --max-logprobs"
        )

    def _check_ids(self, renderer: Renderer) -> None:
        """The server must make the same ids of a text."""
        end = str(renderer.tokenizer.eos_token)
        probes = {text: renderer.encode(text) for text in PROBES}
        probes[PROBES[0] + end] = (*renderer.encode(PROBES[0]), int(renderer.tokenizer.eos_token_id))
        for text, ids in probes.items():
            found = self._probed(text, read_ids, return_token_ids=True, add_special_tokens=False)
            # Without a list of ids, the keys of the log-probabilities tell all but the first.
            if found[1:] != list(ids[1:]) or found[0] not in (None, ids[0]):
                raise self._other_vocabulary(text, list(ids), found)

    def _check_words(self, renderer: Renderer) -> None:
        """The server must make the same text of each id."""
        for text in PROBES[:2]:
            ids = renderer.encode(text)
            wanted = [str(renderer.tokenizer.decode([token])) for token in ids]
            found = self._probed(ids, read_words)[: len(ids)]
            if found != wanted:
                raise self._other_vocabulary(text, wanted, found)

    def _other_vocabulary(self, text: str, wanted: Sequence[object], found: Sequence[object]) -> UserError:
        return UserError(
            f"model must share the student's vocabulary: {self.config.model!r} reads {text!r} as {found}, the student "
            f"as {wanted} - use a teacher with the student's tokenizer"
        )

    def _probed(self, prompt: Sequence[int] | str, read: Reader[T], top: int = 0, **more: Any) -> T:
        found = self._within_budget(prompt, top, read, hasty=True, **more)
        if isinstance(found, Partial):
            raise UserError(
                "base_url must be a server that returns log-probabilities of prompts: "
                f"{self.config.base_url} answered, but {found} - serve "
                'the model with `noria serve` or vLLM, or set ask = "echo" for SGLang'
            )
        if isinstance(found, Fault):
            raise EngineError(f"{self.config.base_url} cannot be asked: {found}")
        return found

    def _check_card(self, longest: int) -> None:
        import openai

        try:
            cards = {card.id: card for card in self._client.models.list()}
        except openai.NotFoundError:
            return  # a server may have no list
        except openai.AuthenticationError as fault:
            raise self._status(401, "", {}) from fault
        except openai.OpenAIError as fault:
            raise EngineError(f"{type(fault).__name__} at {self.config.base_url}") from fault
        if self.config.model not in cards:
            raise UserError(
                f"model must be one that {self.config.base_url} serves: got {self.config.model!r}, expected one of "
                f"{', '.join(sorted(cards))} - set model"
            )
        most = (cards[self.config.model].model_extra or {}).get("max_model_len")
        if isinstance(most, int) and most <= longest:
            raise UserError(
                f"model must take sequences of rollout.max_tokens = {longest} tokens and one more: "
                f"{self.config.model!r} is served with {most} - serve it with a longer context, or lower "
                "rollout.max_tokens"
            )


def ready(config: Config) -> str:
    """The key, "" where the server needs none; looks at the environment alone.

    Raises:
        UserError: the variable that should hold it is not set.
    """
    return read_key(config)


def build(config: Config) -> ModelTeacher:
    """The teacher of a recipe's table; sends nothing yet.

    Raises:
        UserError: the package `openai` or the key is missing.
    """
    return ModelTeacher(config, read_key(config))
