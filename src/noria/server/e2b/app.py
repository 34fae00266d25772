"""The application: routes, keys, and faults as clients expect them."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from noria.core.errors import SandboxError
from noria.sandboxes.session import Refused, Session
from noria.server.e2b import files, processes
from noria.server.e2b.boxes import Boxes
from noria.server.e2b.rest import Rest
from noria.server.e2b.wire import CallError, api_error, body_of, object_of

Handler = Callable[[Request], Awaitable[Response]]
_GONE = "The sandbox was not found"


class Api:
    """An ASGI application over `boxes`; `key` is what clients must send."""

    def __init__(self, boxes: Boxes, key: str) -> None:
        self._boxes, self._key = boxes, key
        rest = Rest(boxes)
        routes = [
            self._route("/{v}sandboxes", "POST", rest.create),
            self._route("/{v}sandboxes", "GET", rest.listed),
            self._route("/sandboxes/{id}", "GET", rest.shown),
            self._route("/sandboxes/{id}", "DELETE", rest.killed),
            self._route("/sandboxes/{id}/timeout", "POST", rest.prolonged),
            self._route("/sandboxes/{id}/refreshes", "POST", rest.prolonged),
            self._route("/{v}sandboxes/{id}/connect", "POST", rest.connected),
            self._route("/sandboxes/{id}/metrics", "GET", rest.measured),
        ]
        flat = [route for pair in routes for route in pair]
        for action in ("pause", "resume", "fork", "snapshots"):
            flat += self._route(f"/sandboxes/{{id}}/{action}", "POST", rest.refused)
        flat += [
            Route("/health", self._health, methods=["GET"]),
            Route("/files", self._files, methods=["GET", "POST"]),
            Route("/{service}/{name}", self._call, methods=["POST"]),
        ]
        self.app = Starlette(routes=flat, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self._boxes.close()

    def _route(self, path: str, method: str, handler: Handler) -> list[Route]:
        """A route of the REST interface, with and without its version where `{v}` stands."""

        async def guarded(request: Request) -> Response:
            if not _same(request.headers.get("x-api-key", ""), self._key):
                return api_error(401, "the header X-API-Key must hold this server's key")
            try:
                return await handler(request)
            except CallError as fault:
                return api_error(fault.status, fault.said)

        paths = [path.replace("{v}", version) for version in ("", "v2/")] if "{v}" in path else [path]
        return [Route(each, guarded, methods=[method]) for each in paths]

    async def _health(self, request: Request) -> Response:
        if "e2b-sandbox-id" in request.headers and isinstance(found := self._session(request), Response):
            return found
        return Response(status_code=204)

    async def _files(self, request: Request) -> Response:
        found = self._session(request)
        if isinstance(found, Response):
            return found
        try:
            return await (files.read if request.method == "GET" else files.write)(request, found)
        except (CallError, Refused) as fault:
            known = fault if isinstance(fault, CallError) else CallError(fault.code, str(fault))
            return api_error(507 if known.code == "resource_exhausted" else known.status, str(fault))
        except SandboxError as fault:
            return self._gone(request, str(fault))

    async def _call(self, request: Request) -> Response:
        found = self._session(request)
        if isinstance(found, Response):
            return found
        service, name = str(request.path_params["service"]), str(request.path_params["name"])
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        try:
            if kind == processes.STREAM and service == "process.Process":
                return await processes.stream(name, request, found)
            if kind != "application/json":
                return Response(f"content-type must be application/json: got {kind[:40]!r}", 415)
            given = object_of(await body_of(request))
            if service == "process.Process":
                return JSONResponse(await processes.call(name, given, found))
            if service == "filesystem.Filesystem":
                return JSONResponse(await files.call(name, given, found))
            raise CallError("unimplemented", f"{service[:60]} is not offered here")
        except CallError as fault:
            return fault.answer()
        except Refused as fault:
            return CallError(fault.code, str(fault)).answer()
        except SandboxError as fault:
            return self._gone(request, str(fault))

    def _session(self, request: Request) -> Session | Response:
        """The sandbox that a call is for, or why it may not be spoken to."""
        id_ = request.headers.get("e2b-sandbox-id", "")
        box = self._boxes.get(id_)
        if box is None:
            return self._gone(request, _GONE)
        if not _same(request.headers.get("x-access-token", ""), box.token):
            return CallError("unauthenticated", "the header X-Access-Token must hold the sandbox's token").answer()
        return box.session

    def _gone(self, request: Request, said: str) -> Response:
        """As the gateway before E2B's sandboxes says it: clients know a dead sandbox by these words."""
        id_ = request.headers.get("e2b-sandbox-id", "")[:80]
        return JSONResponse({"sandboxId": id_, "message": said, "code": 502}, 502)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
