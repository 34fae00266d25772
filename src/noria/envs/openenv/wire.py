"""One session with an OpenEnv server, over a WebSocket or over plain HTTP.

Over a WebSocket (`/ws`) each connection has an environment of its own. Over HTTP a server gets `/reset` and `/step`
and keeps, if it does, one environment for everybody; requests carry no session.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from noria.core.errors import PolicyError, SandboxError, UserError
from noria.core.remote import is_loopback

#: Bytes of one answer; what is larger is a fault of the server.
MOST_BYTES = 16 << 20
#: Characters of a refusal that are told.
MOST_CHARS = 300


class Busy(SandboxError):
    """The server has no room for a further session now, or cannot be reached yet; asking again is safe."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a server answered: an observation, the step's reward (None = none was given), whether it was the last."""

    observation: Mapping[str, Any]
    reward: float | None
    done: bool


class Session(Protocol):
    """An environment at the other end.

    Raises `Busy` before anything was changed, `PolicyError` where an action is refused, `SandboxError` for all else.
    """

    def reset(self, seed: int) -> Seen: ...
    def step(self, action: Mapping[str, Any]) -> Seen: ...
    def close(self) -> None: ...


class Http:
    """Plain requests; `close` has nothing to end."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url, self._timeout_s = url, timeout_s

    def reset(self, seed: int) -> Seen:
        return seen_in(request(self._url, "/reset", self._timeout_s, {"seed": seed}))

    def step(self, action: Mapping[str, Any]) -> Seen:
        try:
            return seen_in(request(self._url, "/step", self._timeout_s, {"action": dict(action)}))
        except Busy as fault:  # whether the step was taken is not known
            raise SandboxError(str(fault)) from fault

    def close(self) -> None:
        """Nothing is held."""


class Socket:
    """A WebSocket.

    Raises:
        Busy: the server cannot be reached or has no room.
        UserError: the package `websockets` is missing.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        try:
            from websockets.exceptions import WebSocketException
            from websockets.sync.client import connect
        except ModuleNotFoundError as fault:
            raise UserError(
                f'transport = "ws" needs the package {fault.name!r}, which is missing - run '
                '`pip install "noria[openenv]"`, or set transport = "http"'
            ) from fault
        self._timeout_s = timeout_s
        #: what the library raises where a connection fails: its own faults, the system's, and timeouts
        self._faults = (WebSocketException, OSError, TimeoutError)
        parts = urlsplit(url)
        address = parts._replace(scheme="wss" if parts.scheme == "https" else "ws", path=f"{parts.path}/ws").geturl()
        proxy: Literal[True] | None = None if is_loopback(url) else True
        self._open, self._fresh = ExitStack(), True
        try:
            self._socket = self._open.enter_context(
                connect(address, open_timeout=timeout_s, close_timeout=1.0, max_size=MOST_BYTES, proxy=proxy)
            )
        except self._faults as fault:
            raise Busy(f"the server {url} cannot be reached: {type(fault).__name__}: {fault}") from fault

    def reset(self, seed: int) -> Seen:
        return self._ask({"type": "reset", "data": {"seed": seed}})

    def step(self, action: Mapping[str, Any]) -> Seen:
        return self._ask({"type": "step", "data": dict(action)})

    def close(self) -> None:
        """End the session; the server drops its environment."""
        try:
            self._socket.send(json.dumps({"type": "close"}))
        except self._faults:
            pass
        self._open.close()

    def _ask(self, message: Mapping[str, Any]) -> Seen:
        fresh, self._fresh = self._fresh, False
        try:
            try:
                self._socket.send(json.dumps(message))
            except self._faults:
                pass  # a server that hangs up at once may have said why
            answer = self._socket.recv(timeout=self._timeout_s)
        except self._faults as fault:
            kind = Busy if fresh else SandboxError
            raise kind(f"the server did not answer: {type(fault).__name__}: {fault}") from fault
        told = decoded(answer)
        data = told.get("data")
        if told.get("type") == "error":
            raise _refused(data if isinstance(data, dict) else {})
        if told.get("type") != "observation" or not isinstance(data, dict):
            raise SandboxError(f"the server answered {str(told)[:MOST_CHARS]!r}, expected an observation")
        return seen_in(data)


def request(url: str, path: str, timeout_s: float, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The JSON object that a server answers: a POST with a body, a GET without one.

    Raises:
        Busy: it cannot be reached, or says 429, 502, 503 or 504.
        PolicyError: it says 422: the action does not fit its schema.
        SandboxError: any other answer that is none.
    """
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    proxies = [urllib.request.ProxyHandler({})] if is_loopback(url) else []
    try:
        with urllib.request.build_opener(*proxies).open(asked, timeout=timeout_s) as answer:
            read: bytes = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as fault:
        told = fault.read(4 * MOST_CHARS).decode("utf-8", "replace")[:MOST_CHARS]
        if fault.code == 422:
            raise PolicyError(f"the action was refused: {told}") from None
        kind = Busy if fault.code in (429, 502, 503, 504) else SandboxError
        raise kind(f"the server says {fault.code} to {path}: {told}") from fault
    except (OSError, HTTPException) as fault:
        raise Busy(f"the server {url} cannot be reached: {type(fault).__name__}: {fault}") from fault
    if len(read) > MOST_BYTES:
        raise SandboxError(f"the server's answer to {path} is larger than {MOST_BYTES >> 20} MiB")
    return decoded(read)


def decoded(text: str | bytes) -> dict[str, Any]:
    """A JSON object. Raises SandboxError: it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise SandboxError(f"the server's answer is no JSON: {fault}") from fault
    if not isinstance(found, dict):
        raise SandboxError(f"the server's answer must be an object: got {type(found).__name__}")
    return found


def seen_in(data: Mapping[str, Any]) -> Seen:
    """The parts of an answer to reset or step. Raises SandboxError: they are not there or of another type."""
    observation, reward, done = data.get("observation"), data.get("reward"), data.get("done", False)
    if not isinstance(observation, dict) or not isinstance(done, bool):
        raise SandboxError(f"the server's answer has no observation: {str(data)[:MOST_CHARS]}")
    if reward is not None and not isinstance(reward, (int, float)):
        raise SandboxError(f"the server's reward must be a number or null: got {reward!r}")
    value = None if reward is None else float(reward)
    if value is not None and value - value != 0.0:
        raise SandboxError(f"the server's reward must be finite: got {reward!r}")
    return Seen(observation, value, done)


def _refused(error: Mapping[str, Any]) -> Exception:
    code, told = str(error.get("code", "")), str(error.get("message", ""))[:MOST_CHARS]
    if code == "VALIDATION_ERROR":
        return PolicyError(f"the action was refused: {told} {str(error.get('errors', ''))[:MOST_CHARS]}".rstrip())
    if code == "CAPACITY_REACHED":
        return Busy(f"the server has no room: {told}")
    return SandboxError(f"the server says {code or 'error'}: {told}")
