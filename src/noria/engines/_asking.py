"""Requests to a server of completions: asked again within a budget, answers read strictly.

Faults that pass (a broken connection, a busy server) are waited out for as long as the budget lasts; an answer that
lacks something is asked for a few times only, since a server that answers wrongly goes on doing so.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from noria.core.errors import NoriaError
from noria.core.remote import ServerConfig, after_s, connect_many, passes, refusal

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
#: First and longest wait before a repetition, in s; a server's wish wins.
WAIT_S, MOST_S = 0.5, 15.0
#: How long connections may take to close, in s.
CLOSE_S = 10.0
#: How far above 0 rounding may lift a log-probability.
SLACK = 1e-3


class Fault(NoriaError):
    """A request failed. `passes`: waiting may help; `breaks`: another server may stand there since."""

    def __init__(self, text: str, passes: bool = False, breaks: bool = False, wish_s: float | None = None) -> None:
        super().__init__(text)
        self.passes, self.breaks, self.wish_s = passes or breaks, breaks, wish_s


@dataclass(frozen=True, slots=True)
class Sampled:
    """Ids and log-probabilities of a completion, its text, and whether the server says that it stopped by itself."""

    ids: tuple[int, ...]
    logp: tuple[float, ...]
    text: str
    stopped: bool


class Line:
    """HTTP to one server, in an event loop with a thread of its own. `path` ends addresses below `base_url`."""

    def __init__(self, config: ServerConfig, key: str, at_once: int) -> None:
        self._config, self._key = config, key
        self._base = config.base_url.rstrip("/")
        self._client = connect_many(config, key, at_once)
        self._is_broken = False
        self._events = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._events.run_forever, name="served", daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start something in the event loop; cancelling the answer closes its connection."""
        return asyncio.run_coroutine_threadsafe(work, self._events)

    def close(self) -> None:
        """Drop what is at work, close the connections, end the thread."""
        if self._thread.is_alive():
            wait([self.begin(self._end())], CLOSE_S)
            self._events.call_soon_threadsafe(self._events.stop)
            self._thread.join(CLOSE_S)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.aclose()

    async def get(self, path: str) -> Mapping[str, Any]:
        """The JSON object that a GET gives. Raises Fault and UserError, see `post`."""
        return await self._send("GET", f"{self._base}/{path}", None, None)

    async def post(
        self, path: str, body: Mapping[str, Any], timeout_s: float | None = None, root: bool = False
    ) -> Mapping[str, Any]:
        """The JSON object that a POST gives; {} for an empty answer. With `root` the path is beside `/v1`.

        Raises:
            Fault: no answer, one that may be another the next time, or one that is no JSON object.
            UserError: the server refuses what no repetition changes.
        """
        base = self._base.removesuffix("/v1") if root else self._base
        return await self._send("POST", f"{base}/{path}", body, timeout_s)

    async def _send(
        self, method: str, url: str, body: Mapping[str, Any] | None, timeout_s: float | None
    ) -> Mapping[str, Any]:
        import httpx2

        timeout = httpx2.Timeout(timeout_s or self._config.timeout_s, pool=None)
        try:
            response = await self._client.request(method, url, json=body, timeout=timeout)
        except (httpx2.ReadTimeout, httpx2.WriteTimeout) as fault:
            raise Fault(f"no answer from {url} within {timeout.read:g} s", passes=True) from fault
        except httpx2.RequestError as fault:
            broken = Fault(f"{type(fault).__name__} at {url}", breaks=True)
            self._tell(broken)
            raise broken from fault
        self._tell(None)
        if response.status_code >= 400:
            raise self._refusal(url, response.status_code, response.text, response.headers)
        if not response.content.strip():
            return {}
        try:
            data = response.json()
        except ValueError as fault:
            raise Fault(f"the answer of {url} is no JSON") from fault
        if not isinstance(data, dict):
            return {"value": data}
        return data

    def _tell(self, fault: Fault | None) -> None:
        """Say once that the server is gone, and once that it is there again: nothing else is seen of it meanwhile."""
        if fault is not None and not self._is_broken:
            _LOG.warning("student.engine: %s - asked again until its budget is used up", fault)
        elif fault is None and self._is_broken:
            _LOG.warning("student.engine: %s answers again", self._base)
        self._is_broken = fault is not None

    def _refusal(self, url: str, status: int, text: str, headers: Mapping[str, str]) -> NoriaError:
        if passes(status):
            # A server that fails does so again, one that is busy or on its way up does not.
            told = (text.replace(self._key, "***") if self._key else text)[:300]
            return Fault(f"status {status} from {url}: {told}", passes=status != 500, wish_s=after_s(headers))
        must, fix = "a server that answers these requests", "serve the model with `noria serve` or vLLM"
        return refusal(self._config, self._key, url, status, text, must, fix, "student.engine.")


async def patiently(once: Callable[[], Awaitable[T]], budget_s: float, tries: int) -> T:
    """The answer of `once`, asked for until the budget is used up or `tries` + 1 answers were wrong.

    Raises:
        Fault: the last one.
        UserError: as `once`.
    """
    deadline, wait, wrong = time.monotonic() + budget_s, WAIT_S, 0
    while True:
        try:
            return await once()
        except Fault as fault:
            last = fault
        wrong += not last.passes
        pause = wait if last.wish_s is None else last.wish_s
        wait = min(2 * wait, MOST_S)
        if wrong > tries or time.monotonic() + pause >= deadline:
            raise last
        await asyncio.sleep(pause)


def choice_of(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one choice of an answer. Raises Fault where there is none."""
    choices = answer.get("choices")
    if not (isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict)):
        raise Fault("the answer has not one choice")
    return choices[0]


def read_sampled(choice: Mapping[str, Any], most: int) -> Sampled:
    """What was sampled, `most` tokens at most.

    Raises:
        Fault: ids or log-probabilities are missing, are not as many, or cannot be such.
    """
    ids, table = choice.get("token_ids"), choice.get("logprobs")
    values = table.get("token_logprobs") if isinstance(table, dict) else None
    if not isinstance(ids, list) or not all(type(token) is int and token >= 0 for token in ids):
        raise Fault("the answer has no token_ids: the server must know return_token_ids")
    if not isinstance(values, list) or len(values) != len(ids):
        found = len(values) if isinstance(values, list) else "no"
        raise Fault(f"the answer has {found} log-probabilities for {len(ids)} tokens")
    if not 1 <= len(ids) <= most:
        raise Fault(f"the answer has {len(ids)} tokens of 1 to {most}")
    for value in values:
        if type(value) not in (int, float) or not math.isfinite(value) or value > SLACK:
            raise Fault(f"the answer has {value!r} as a log-probability")
    text, reason = choice.get("text"), choice.get("finish_reason")
    if not isinstance(text, str) or reason not in ("stop", "length"):
        raise Fault(f"the answer ends with {reason!r}, expected stop or length")
    return Sampled(tuple(ids), tuple(min(float(value), 0.0) for value in values), text, reason == "stop")


def read_likeliest(choice: Mapping[str, Any]) -> dict[str, float]:
    """The likeliest tokens at the first position with their log-probabilities, those left out that have no own name."""
    table = choice.get("logprobs")
    rows = table.get("top_logprobs") if isinstance(table, dict) else None
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        raise Fault("the answer has no top_logprobs")
    return {name: float(value) for name, value in rows[0].items() if "�" not in name and math.isfinite(value)}


def same_text(one: str, other: str) -> bool:
    """Whether two texts are one, up to spaces and characters that are not whole."""
    return _letters(one) == _letters(other)


def _letters(text: str) -> str:
    return "".join(text.replace("�", "").split())


def mean_gap(one: Sequence[float], other: Sequence[float]) -> float:
    """Mean absolute difference of two lists of numbers."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)
