"""The HTTP side: routes, the key, sizes, clients that go away."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from noria.core.types import Outcome, Task
from noria.server.bodies import BODY_S, Drained, read_body
from noria.server.chat import Chat
from noria.server.completions import Completion
from noria.server.errors import ApiError, stopping, wrong
from noria.server.exchange import deliver
from noria.server.loop import DecodingLoop, Event, Job
from noria.server.model import Served
from noria.server.schema import (
    ChatRequest,
    CompletionRequest,
    FinishRequest,
    Kind,
    SessionRequest,
    WeightsRequest,
    parse,
    read,
)
from noria.server.sessions import Session, Sessions, facts
from noria.server.weights import Weights

#: The status of an answer that nobody reads.
GONE = 499
#: What names a session where the path does not, and what counts a client's repetitions.
HEADER, RETRY = "x-noria-session", "x-stainless-retry-count"

Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """Answers requests.

    `key` is "" where none is needed, `body_s` how long a body may take to arrive. Calls of `sessions` are recorded,
    `weights` takes new ones; None = there are none, clients cannot give any.
    """

    def __init__(
        self,
        served: Served,
        loop: DecodingLoop,
        key: str,
        body_s: float = BODY_S,
        sessions: Sessions | None = None,
        weights: Weights | None = None,
    ) -> None:
        self.served, self.loop, self._key, self._body_s = served, loop, key, body_s
        self.sessions, self.weights = sessions, weights
        self._began = int(time.time())
        #: where requests are answered, while there is such a place
        self.events: asyncio.AbstractEventLoop | None = None

    def app(self) -> ASGIApp:
        """The application for a server."""
        routes = [
            Route("/health", self._open(self._health)),
            Route("/v1/models", self._keyed(self._models)),
            Route("/v1/models/{name:path}", self._keyed(self._one_model)),
            Route("/v1/completions", self._keyed(self._completions), methods=["POST"]),
            Route("/v1/chat/completions", self._keyed(self._chat), methods=["POST"]),
        ]
        if self.sessions is not None:
            routes += self._session_routes()
        if self.weights is not None:
            routes.append(Route("/v1/weights", self._keyed(self._weights_held)))
            routes.append(Route("/v1/weights", self._keyed(self._take_weights), methods=["POST"]))
        app = Starlette(
            routes=routes, lifespan=self._lifespan,
            exception_handlers={HTTPException: _no_route, Exception: _bug},
        )  # fmt: skip
        return Drained(app)

    def _session_routes(self) -> list[Route]:
        of = "/sessions/{session}"
        return [
            Route("/sessions", self._keyed(self._begin), methods=["POST"]),
            Route(of, self._keyed(self._session)),
            Route(f"{of}/finish", self._keyed(self._finish), methods=["POST"]),
            Route(f"{of}/v1/models", self._keyed(self._models)),
            Route(f"{of}/v1/models/{{name:path}}", self._keyed(self._one_model)),
            Route(f"{of}/v1/completions", self._keyed(self._completions), methods=["POST"]),
            Route(f"{of}/v1/chat/completions", self._keyed(self._chat), methods=["POST"]),
        ]

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        events = asyncio.get_running_loop()

        def post(bundle: list[tuple[Job, Event]]) -> None:
            if not events.is_closed():
                events.call_soon_threadsafe(deliver, bundle)

        self.loop.start(post)
        self.events = events
        yield
        await asyncio.to_thread(self.loop.close)

    def _open(self, work: Handler) -> Handler:
        async def handle(request: Request) -> Response:
            try:
                return await work(request)
            except ApiError as fault:
                return _refusal(fault)
            except ClientDisconnect:
                return Response(status_code=GONE)

        return handle

    def _keyed(self, work: Handler) -> Handler:
        async def handle(request: Request) -> Response:
            given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
            if self._key and not hmac.compare_digest(given, self._key.encode()):
                raise ApiError(401, "the API key is missing or wrong", code="invalid_api_key")
            return await work(request)

        return self._open(handle)

    async def _health(self, _request: Request) -> Response:
        loop = self.loop
        state = {"model": self.served.name, "busy": loop.busy, "capacity": loop.capacity, "tokens": loop.tokens}
        if self.loop.stopping:
            return JSONResponse({"status": "stopping", **state}, 503)
        return JSONResponse({"status": "ok", **state})

    async def _models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def _one_model(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(self._card())

    def _card(self) -> dict[str, Any]:
        return {
            "id": self.served.name, "object": "model", "created": self._began, "owned_by": "noria",
            "max_model_len": self.served.limits.max_len,
        }  # fmt: skip

    async def _weights_held(self, _request: Request) -> Response:
        assert self.weights is not None
        return JSONResponse(self.weights.facts())

    async def _take_weights(self, request: Request) -> Response:
        assert self.weights is not None
        if self.loop.stopping:
            raise stopping()
        return JSONResponse(await self.weights.take(read(WeightsRequest, await self._body(request))))

    async def _completions(self, request: Request) -> Response:
        asked = await self._read(request, CompletionRequest)
        work = Completion(self.served, self.loop, asked, self._recorder(request), _is_retry(request))
        return await self._answer(request, work, bool(asked.stream))

    async def _chat(self, request: Request) -> Response:
        asked = await self._read(request, ChatRequest)
        work = Chat(self.served, self.loop, asked, self._recorder(request), _is_retry(request))
        return await self._answer(request, work, bool(asked.stream))

    def _recorder(self, request: Request) -> Session | None:
        """The session that a call belongs to: its path names one, or a header."""
        name = request.path_params.get("session", request.headers.get(HEADER))
        if name is None:
            return None
        if self.sessions is None:
            raise wrong(HEADER, f"{HEADER} must not be sent: this server records nothing - start it with --record")
        return self.sessions.get(name)

    async def _begin(self, request: Request) -> Response:
        self._check_own()
        assert self.sessions is not None
        asked = read(SessionRequest, await self._body(request))
        name = asked.id or uuid.uuid4().hex
        self.sessions.begin(name, Task(name, "recorded", "", asked.task), self.sessions.terms).check_open()
        base = str(request.base_url).rstrip("/")
        return JSONResponse({"id": name, "base_url": f"{base}/sessions/{name}/v1", "model": self.served.name})

    async def _session(self, request: Request) -> Response:
        assert self.sessions is not None
        return JSONResponse(facts(self.sessions.get(request.path_params["session"], make=False)))

    async def _finish(self, request: Request) -> Response:
        self._check_own()
        assert self.sessions is not None
        asked = read(FinishRequest, await self._body(request))
        outcome = Outcome(asked.reward, asked.parts, asked.reason)
        return JSONResponse(self.sessions.finish(request.path_params["session"], outcome, asked.stop))

    def _check_own(self) -> None:
        """Raises ApiError where sessions begin and end by other hands than clients'."""
        if self.sessions is None or not self.sessions.takes_new:
            raise ApiError(403, "sessions of this server are not begun or ended by clients", code="not_yours")

    async def _read(self, request: Request, kind: type[Kind]) -> Kind:
        if self.loop.stopping:
            raise stopping()
        asked = parse(kind, await self._body(request))
        self._check_model(asked.model)
        return asked

    async def _body(self, request: Request) -> bytes:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise ApiError(415, "content-type must be application/json")
        return await read_body(request, self._body_s)

    def _check_model(self, name: str) -> None:
        if name != self.served.name:
            raise ApiError(
                404, f"the model {name!r} is not served here: there is {self.served.name!r}", "model",
                "model_not_found",
            )  # fmt: skip

    async def _answer(self, request: Request, work: Completion | Chat, stream: bool) -> Response:
        if stream:
            return StreamingResponse(_events(work), media_type="text/event-stream")
        answer = await _while_wanted(request, work.whole())
        return Response(status_code=GONE) if answer is None else JSONResponse(answer)


async def _events(work: Completion | Chat) -> AsyncIterator[str]:
    """Server-sent events; a fault after the first of them can only be told inside the stream."""
    try:
        async for chunk in work.chunks():
            yield f"data: {json.dumps(chunk, allow_nan=False, separators=(',', ':'))}\n\n"
    except ApiError as fault:
        yield f"data: {json.dumps(fault.body())}\n\n"
    yield "data: [DONE]\n\n"


async def _while_wanted(request: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any] | None:
    """The result of `work`, None where the client went away first; then the work is cancelled."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue


def _is_retry(request: Request) -> bool:
    """Whether the client says that it repeats a request, as the `openai` package does."""
    count = request.headers.get(RETRY, "0")
    return count.isascii() and count.isdigit() and int(count[:9]) > 0


def _refusal(fault: ApiError) -> Response:
    return JSONResponse(fault.body(), fault.status, fault.headers)


async def _no_route(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    return _refusal(ApiError(fault.status_code, f"{request.method} {request.url.path}: {fault.detail}"))


async def _bug(_request: Request, _fault: Exception) -> Response:
    return _refusal(ApiError(500, "the server has a fault: see its log", code="internal_error"))
