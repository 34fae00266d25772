"""Processes of a sandbox: E2B's `process.Process` service."""

from __future__ import annotations

import asyncio
import base64
import binascii
import signal
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from noria.core.errors import SandboxError
from noria.sandboxes.session import Event, Process, Refused, Session
from noria.server.e2b.wire import CallError, frame, frames_of, object_of, seconds, text_of, texts_of

STREAM = "application/connect+json"
_SIGNALS = {"SIGNAL_SIGKILL": signal.SIGKILL, "SIGNAL_SIGTERM": signal.SIGTERM}
_SIGNAL_NUMBERS = {9: signal.SIGKILL, 15: signal.SIGTERM}
_PING_S = 50.0


async def call(name: str, given: dict[str, Any], session: Session) -> dict[str, Any]:
    """One call that is answered at once. Raises CallError, Refused."""
    if name == "List":
        return {"processes": [_info(process) for process in session.processes.values()]}
    process = _selected(given, session)
    if name == "SendInput":
        await session.ask("input", _given(given), pid=process.pid)
    elif name == "CloseStdin":
        await session.ask("close", pid=process.pid)
    elif name == "SendSignal":
        kind = given.get("signal")
        number = _SIGNALS.get(kind) if isinstance(kind, str) else _SIGNAL_NUMBERS.get(kind if kind is not None else -1)
        if number is None:
            raise CallError("invalid_argument", f"signal must be one of {', '.join(_SIGNALS)}")
        await session.ask("signal", pid=process.pid, signal=int(number))
    else:
        raise CallError("unimplemented", f"process.Process/{name} is not offered here")
    return {}


async def stream(name: str, request: Request, session: Session) -> Response:
    """`Start`, `Connect` and `StreamInput`; what goes wrong later is told at the stream's end."""
    if name not in ("Start", "Connect", "StreamInput"):
        raise CallError("unimplemented", f"process.Process/{name} is not offered here")
    if name == "StreamInput":
        return Response(await _fed(request, session), media_type=STREAM)
    first: dict[str, Any] = await anext(frames_of(request), {})
    return StreamingResponse(_told(name, first, request, session), media_type=STREAM)


async def _told(name: str, given: dict[str, Any], request: Request, session: Session) -> AsyncIterator[bytes]:
    limit_s, ping_s = seconds(request, "connect-timeout-ms", 1e-3), seconds(request, "keepalive-ping-interval", 1.0)
    error: dict[str, Any] = {}
    try:
        if name == "Start":
            process, queue = await _start(given, session, limit_s)
        else:
            process = _selected(given, session)
            queue = session.listen(process)
        yield _event({"start": {"pid": process.pid}})
        async for event in _within(session, process, queue, limit_s, ping_s or _PING_S):
            if event is None:
                yield _event({"keepalive": {}})
            elif event.stream == "gone":
                raise CallError("unavailable", "the sandbox ended before the stream did")
            elif event.stream == "end":
                yield _event({"end": _end(event)})
            else:
                yield _event({"data": {event.stream: base64.b64encode(event.data).decode()}})
    except TimeoutError:
        if name == "Start":
            await _kill(session, process)
        error = {"code": "deadline_exceeded", "message": f"the process took more than {limit_s:g} s"}
    except (CallError, Refused) as fault:
        error = {"code": fault.code, "message": str(fault)}
    except SandboxError as fault:
        error = {"code": "unavailable", "message": str(fault)}
    yield frame({"error": error} if error else {}, last=True)


async def _within(
    session: Session, process: Process, queue: asyncio.Queue[Event], limit_s: float | None, ping_s: float
) -> AsyncIterator[Event | None]:
    """Events of a process; None where nothing came for `ping_s`. Raises TimeoutError after `limit_s`."""
    loop = asyncio.get_running_loop()
    deadline = None if limit_s is None else loop.time() + limit_s
    try:
        while True:
            left_s = ping_s if deadline is None else min(ping_s, deadline - loop.time())
            if left_s <= 0:
                raise TimeoutError
            try:
                event = await asyncio.wait_for(session.event(process, queue), left_s)
            except TimeoutError:
                if deadline is not None and loop.time() >= deadline:
                    raise
                yield None
                continue
            yield event
            if event.stream in ("end", "gone"):
                return
    finally:
        await session.leave(process, queue)


async def _fed(request: Request, session: Session) -> bytes:
    """Give a process what the stream brings; the answer waits until the stream has ended."""
    process: Process | None = None
    try:
        async for message in frames_of(request):
            if isinstance(message.get("start"), dict):
                process = _selected(message["start"], session)
            elif isinstance(message.get("data"), dict):
                if process is None:
                    raise CallError("invalid_argument", "the stream must begin with its process")
                await session.ask("input", _given(message["data"]), pid=process.pid)
    except (CallError, Refused) as fault:
        return frame({"error": {"code": fault.code, "message": str(fault)}}, last=True)
    except SandboxError as fault:
        return frame({"error": {"code": "unavailable", "message": str(fault)}}, last=True)
    return frame({}) + frame({}, last=True)


async def _start(
    given: dict[str, Any], session: Session, limit_s: float | None
) -> tuple[Process, asyncio.Queue[Event]]:
    """A process that ends after `limit_s`, whether its client is still there or not."""
    config = given.get("process")
    if not isinstance(config, dict):
        raise CallError("invalid_argument", "process must be given")
    if given.get("pty"):
        raise CallError("unimplemented", "terminals are not offered here")
    args, tag = config.get("args") or [], given.get("tag")
    argv = [text_of(config, "cmd"), *args] if isinstance(args, list) else []
    if not argv or not argv[0] or not all(isinstance(word, str) and "\0" not in word for word in argv):
        raise CallError("invalid_argument", "cmd and args must be texts without NUL")
    if tag is not None and not isinstance(tag, str):
        raise CallError("invalid_argument", "tag must be a text")
    cwd = config.get("cwd")
    return await session.start(
        argv, texts_of(config, "envs"), cwd if isinstance(cwd, str) else "", given.get("stdin") is True, tag, limit_s
    )


async def _kill(session: Session, process: Process) -> None:
    try:
        await session.ask("signal", pid=process.pid, signal=int(signal.SIGKILL))
    except (Refused, SandboxError):
        return  # it is over already


def _selected(given: dict[str, Any], session: Session) -> Process:
    selector = object_of(b"{}") if not isinstance(given.get("process"), dict) else given["process"]
    for process in session.processes.values():
        if process.pid == selector.get("pid") or (process.tag is not None and process.tag == selector.get("tag")):
            return process
    raise CallError("not_found", f"no process {str(selector.get('pid', selector.get('tag')))[:40]}")


def _given(call_: dict[str, Any]) -> bytes:
    wrapped = call_.get("input")
    try:
        return base64.b64decode(text_of(wrapped if isinstance(wrapped, dict) else {}, "stdin"), validate=True)
    except binascii.Error:
        raise CallError("invalid_argument", "stdin must be base64") from None


def _info(process: Process) -> dict[str, Any]:
    config = {"cmd": process.argv[0], "args": list(process.argv[1:]), "envs": dict(process.env)}
    config |= {"cwd": process.cwd} if process.cwd else {}
    return {"pid": process.pid, "config": config} | ({"tag": process.tag} if process.tag is not None else {})


def _end(event: Event) -> dict[str, Any]:
    if event.code >= 0:
        return {"exitCode": event.code, "exited": True, "status": f"exit status {event.code}"}
    said = f"signal: {signal.strsignal(-event.code) or -event.code}".lower()
    return {"exitCode": -1, "exited": False, "status": said, "error": said}


def _event(message: dict[str, Any]) -> bytes:
    return frame({"event": message})
