"""Connect's JSON over HTTP, as far as E2B's clients speak it: errors, and frames of streams."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

#: Largest body of a call that is no file, in bytes, and how long it may take to arrive, in s.
MAX_CALL, BODY_S = 8 << 20, 60.0
_STATUS = {
    "invalid_argument": 400, "unauthenticated": 401, "permission_denied": 403, "not_found": 404,
    "already_exists": 409, "failed_precondition": 400, "resource_exhausted": 429, "unimplemented": 501,
    "unavailable": 502, "deadline_exceeded": 504, "internal": 500, "canceled": 499,
}  # fmt: skip


class CallError(Exception):
    """A call that fails: `code` in Connect's words."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code, self.said = code, said

    @property
    def status(self) -> int:
        """The HTTP status that goes with the code."""
        return _STATUS.get(self.code, 500)

    def answer(self) -> Response:
        """As a unary call tells it."""
        return JSONResponse({"code": self.code, "message": self.said}, self.status)


def api_error(status: int, said: str) -> Response:
    """As the REST interface tells it."""
    return JSONResponse({"code": status, "message": said}, status)


async def body_of(request: Request, most: int = MAX_CALL) -> bytes:
    """The whole body. Raises CallError where it is too large or too slow."""
    parts = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                parts += part
                if len(parts) > most:
                    raise CallError("resource_exhausted", f"the body has more than {most} bytes")
    except TimeoutError:
        raise CallError("deadline_exceeded", f"the body must arrive within {BODY_S:g} s") from None
    return bytes(parts)


def object_of(data: bytes) -> dict[str, Any]:
    """A JSON object. Raises CallError for anything else."""
    try:
        found = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        raise CallError("invalid_argument", "the body must be JSON") from None
    if not isinstance(found, dict):
        raise CallError("invalid_argument", "the body must be a JSON object")
    return found


def text_of(call: dict[str, Any], key: str, otherwise: str | None = None) -> str:
    """A text of a call. Raises CallError where it is none."""
    value = call.get(key, otherwise)
    if not isinstance(value, str):
        raise CallError("invalid_argument", f"{key} must be a text: got {str(value)[:40]!r}")
    return value


def texts_of(call: dict[str, Any], key: str) -> dict[str, str]:
    """A map of texts. Raises CallError where it is none."""
    value = call.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(each, str) and "\0" not in each for each in value.values()):
        raise CallError("invalid_argument", f"{key} must map names to texts")
    if any(not name or "=" in name or "\0" in name for name in value):
        raise CallError("invalid_argument", f"{key} must have names without '='")
    return {str(name): each for name, each in value.items()}


def frame(message: dict[str, Any], last: bool = False) -> bytes:
    """One message of a stream; the last one carries the error, if any."""
    text = json.dumps(message).encode()
    return struct.pack(">BI", 2 if last else 0, len(text)) + text


async def frames_of(request: Request) -> AsyncIterator[dict[str, Any]]:
    """The messages of a stream as they arrive. Raises CallError for what is none, or is compressed or too large."""
    held = bytearray()
    async for part in request.stream():
        held += part
        while len(held) >= 5:
            flags, size = struct.unpack(">BI", held[:5])
            if size > MAX_CALL or flags & 1:
                raise CallError("invalid_argument", "a message of a stream is compressed or too large")
            if len(held) < 5 + size:
                break
            text = bytes(held[5 : 5 + size])
            del held[: 5 + size]
            if not flags & 2:
                yield object_of(text)
    if held:
        raise CallError("invalid_argument", "a stream ends within a message")


def seconds(request: Request, name: str, unit: float) -> float | None:
    """A header with a whole number, in seconds; None where there is none, or nothing sensible."""
    text = request.headers.get(name, "")
    return int(text) * unit if text.isascii() and text.isdecimal() and 0 < int(text) < 10**12 else None
