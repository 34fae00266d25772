"""E2B's REST interface: sandboxes made, listed, prolonged, killed."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from noria.server.e2b.boxes import DEFAULT_S, Box, Boxes, timeout_of
from noria.server.e2b.wire import CallError, api_error, body_of, object_of, text_of, texts_of

_PAGE = 100


class Rest:
    """Handlers over the sandboxes of a server."""

    def __init__(self, boxes: Boxes) -> None:
        self._boxes = boxes

    async def create(self, request: Request) -> Response:
        """POST /sandboxes, /v2/sandboxes."""
        call = object_of(await body_of(request))
        if call.get("allow_internet_access") is True:
            raise CallError("invalid_argument", "allow_internet_access must be false: the sandboxes have no network")
        for key in ("mcp", "volumeMounts", "iam"):
            if call.get(key):
                raise CallError("unimplemented", f"{key} is not offered here")
        box = await self._boxes.make(
            text_of(call, "templateID", "base"), texts_of(call, "envVars"), texts_of(call, "metadata"),
            timeout_of(call.get("timeout", DEFAULT_S)),
        )  # fmt: skip
        return JSONResponse(box.access(), 201)

    async def listed(self, request: Request) -> Response:
        """GET /sandboxes, /v2/sandboxes: by metadata and state, in pages."""
        query = request.query_params
        wanted = dict(parse_qsl(query.get("metadata", "")))
        states = [state for text in query.getlist("state") for state in text.split(",")]
        found = [box for box in self._boxes.all() if all(box.metadata.get(key) == want for key, want in wanted.items())]
        if states and "running" not in states:
            found = []
        start, limit = (_number(query.get(key), usual) for key, usual in (("nextToken", 0), ("limit", _PAGE)))
        page = found[start : start + max(1, limit)]
        headers = {"X-Next-Token": str(start + len(page))} if start + len(page) < len(found) else {}
        return JSONResponse([box.summary() for box in page], headers=headers)

    async def shown(self, request: Request) -> Response:
        """GET /sandboxes/{id}."""
        box = self._box(request)
        return JSONResponse({**box.summary(), "envdAccessToken": box.token, "domain": None})

    async def killed(self, request: Request) -> Response:
        """DELETE /sandboxes/{id}."""
        await self._boxes.kill(self._box(request))
        return Response(status_code=204)

    async def prolonged(self, request: Request) -> Response:
        """POST /sandboxes/{id}/timeout and refreshes."""
        box, call = self._box(request), object_of(await body_of(request))
        self._boxes.live_until(box, timeout_of(call.get("timeout", call.get("duration", DEFAULT_S))))
        return Response(status_code=204)

    async def connected(self, request: Request) -> Response:
        """POST /sandboxes/{id}/connect: lets it live at least as long as is asked for."""
        box, call = self._box(request), object_of(await body_of(request))
        timeout_s = timeout_of(call.get("timeout", DEFAULT_S))
        self._boxes.prolong(box, timeout_s)
        return JSONResponse(box.access())

    async def measured(self, request: Request) -> Response:
        """GET /sandboxes/{id}/metrics: none are taken."""
        self._box(request)
        return JSONResponse([])

    async def refused(self, request: Request) -> Response:
        """What E2B has and this server has not."""
        return api_error(501, f"{request.url.path.rpartition('/')[2]} is not offered here")

    def _box(self, request: Request) -> Box:
        id_ = str(request.path_params["id"])
        box = self._boxes.get(id_)
        if box is None:
            raise CallError("not_found", f"Sandbox {id_[:80]} not found")
        return box


def _number(text: str | None, usual: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 9 else usual
