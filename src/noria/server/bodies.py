"""Bodies of requests: bounded in size and time, and read to their end before a connection is closed.

A connection that is closed while its client still sends is reset, and a reset may overtake the answer: the client then
sees a broken connection where a refusal was sent.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noria.server.errors import ApiError

#: Largest request in bytes: a full context of ids many times over.
MAX_BODY = 32 << 20
#: How long a whole body may take, in s.
BODY_S = 120.0
#: How much of a refused body is read and thrown away, in bytes and s; what goes on after that is cut off.
MOST_DRAINED = 1 << 30
DRAIN_S = 30.0


async def read_body(request: Request, body_s: float = BODY_S) -> bytes:
    """The whole body.

    Raises:
        ApiError: it is larger than `MAX_BODY`, said to be or found to be, or took longer than `body_s`.
    """
    if int(request.headers.get("content-length", "0")) > MAX_BODY:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(body_s):
            async for part in request.stream():
                size += len(part)
                if size > MAX_BODY:
                    raise _too_large()
                parts.append(part)
    except TimeoutError:
        raise ApiError(408, f"the request must arrive within {body_s:g} s: {size} bytes did") from None
    return b"".join(parts)


def _too_large() -> ApiError:
    return ApiError(413, f"the request must be at most {MAX_BODY} bytes: send fewer prompts", code="request_too_large")


class Drained:
    """An application whose answers end after the request's body has.

    The answer is sent at once; only its end waits, while the rest of the body is thrown away. Such a connection is
    closed.
    """

    def __init__(self, app: ASGIApp, drain_s: float = DRAIN_S) -> None:
        self._app, self._drain_s = app, drain_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        names = {name for name, _ in scope["headers"]}
        comes = bool(names & {b"content-length", b"transfer-encoding"})
        exchange = _Exchange(receive, send, comes, b"expect" in names, self._drain_s)
        await self._app(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request's two directions."""

    def __init__(self, receive: Receive, send: Send, comes: bool, waits: bool, drain_s: float) -> None:
        self._receive, self._send, self._drain_s = receive, send, drain_s
        self._ended = not comes
        self._waits = waits  # the client, until it is asked for the body; it sends none where it is not

    async def receive(self) -> Message:
        self._waits = False
        message = await self._receive()
        self._ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self._ended and not self._waits:
            await self._send(message)
        elif message["type"] == "http.response.start":
            await self._send({**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]})
        elif message.get("more_body", False):
            await self._send(message)
        else:
            await self._send({**message, "more_body": True})
            await self._drain()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _drain(self) -> None:
        size = 0
        try:
            async with asyncio.timeout(self._drain_s):
                while not self._ended and not self._waits and size <= MOST_DRAINED:
                    size += len((await self.receive()).get("body", b""))
        except TimeoutError:
            self._ended = True
