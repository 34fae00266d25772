"""Files of a sandbox: whole contents over HTTP, and E2B's `filesystem.Filesystem` service."""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from noria.sandboxes.session import Session
from noria.server.e2b.wire import CallError, body_of, text_of

_TYPES = {"file": "FILE_TYPE_FILE", "dir": "FILE_TYPE_DIRECTORY", "symlink": "FILE_TYPE_SYMLINK"}
_BOUNDARY = re.compile(r'boundary="?([^";,]{1,200})"?')
_FILENAME = re.compile(rb'filename="((?:[^"\\]|\\.)*)"')
#: What a multipart body has besides its files.
_MARGIN = 1 << 20


async def read(request: Request, session: Session) -> Response:
    """GET /files?path=…"""
    _, data = await session.ask("read", path=_path(request))
    return Response(data, media_type="application/octet-stream")


async def write(request: Request, session: Session) -> Response:
    """POST /files?path=…: one file as it is, or one or several as a form."""
    most = (session.limits.disk_mb << 20) + _MARGIN
    body, kind = await body_of(request, most), request.headers.get("content-type", "")
    encoding = request.headers.get("content-encoding", "")
    if encoding == "gzip":
        body = _unpacked(body, most)
    elif encoding not in ("", "identity"):
        raise CallError("invalid_argument", f"content-encoding must be gzip: got {encoding[:40]!r}")
    if kind.startswith("multipart/form-data"):
        parts = _parts(body, kind)
        path = request.query_params.get("path")
        files = [(path if path and len(parts) == 1 else name, data) for name, data in parts]
    else:
        files = [(_path(request), body)]
    told = []
    for path, data in files:
        reply, _ = await session.ask("write", data, path=path)
        told.append({key: reply["entry"][key] for key in ("name", "type", "path")})
    return JSONResponse(told)


async def call(name: str, given: dict[str, Any], session: Session) -> dict[str, Any]:
    """One call of the service. Raises CallError, Refused."""
    if name == "ListDir":
        depth = given.get("depth") or 1
        if isinstance(depth, bool) or not isinstance(depth, int) or not 0 < depth < 1000:
            raise CallError("invalid_argument", "depth must be a whole number above 0")
        reply, _ = await session.ask("list", path=text_of(given, "path"), depth=depth)
        return {"entries": [_entry(each) for each in reply["entries"]]}
    if name == "Move":
        source, target = text_of(given, "source"), text_of(given, "destination")
        reply, _ = await session.ask("move", source=source, target=target)
    elif name in ("Stat", "MakeDir"):
        reply, _ = await session.ask("stat" if name == "Stat" else "mkdir", path=text_of(given, "path"))
    elif name == "Remove":
        await session.ask("remove", path=text_of(given, "path"))
        return {}
    else:
        raise CallError("unimplemented", f"filesystem.Filesystem/{name} is not offered here")
    return {"entry": _entry(reply["entry"])}


def _entry(facts: dict[str, Any]) -> dict[str, Any]:
    seconds = float(facts["mtime"])
    entry = {
        "name": facts["name"], "type": _TYPES[facts["type"]], "path": facts["path"], "size": str(facts["size"]),
        "mode": facts["mode"], "permissions": facts["permissions"], "owner": "user", "group": "user",
        "modifiedTime": _stamp(seconds),
    }  # fmt: skip
    return entry | ({"symlinkTarget": facts["target"]} if facts["target"] is not None else {})


def _stamp(seconds: float) -> str:
    within = min(max(seconds, 0.0), 253_402_300_799.0)  # what a program set may be any number
    return datetime.fromtimestamp(within, UTC).isoformat().replace("+00:00", "Z")


def _path(request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path:
        raise CallError("invalid_argument", "path must be given")
    return path


def _unpacked(body: bytes, most: int) -> bytes:
    try:
        stream = zlib.decompressobj(31)
        data = stream.decompress(body, most)
    except zlib.error as fault:
        raise CallError("invalid_argument", "the body must be gzip, as its content-encoding says") from fault
    if stream.unconsumed_tail:
        raise CallError("resource_exhausted", f"the body unpacks to more than {most} bytes")
    return data


def _parts(body: bytes, kind: str) -> list[tuple[str, bytes]]:
    """(file name, contents) of each file of a form. Raises CallError for a form that cannot be read."""
    found = _BOUNDARY.search(kind)
    if found is None:
        raise CallError("invalid_argument", "the form must have a boundary")
    mark = b"\r\n--" + found[1].encode("latin-1", "replace")
    pieces = (b"\r\n" + body).split(mark)
    if len(pieces) < 3 or not pieces[-1].startswith(b"--"):
        raise CallError("invalid_argument", "the form must hold a file and end with its boundary")
    parts = []
    for piece in pieces[1:-1]:
        head, blank, data = piece.partition(b"\r\n\r\n")
        name = _FILENAME.search(head)
        if not blank or name is None:
            raise CallError("invalid_argument", "each part of the form must be a file with a name")
        parts.append((re.sub(rb"\\(.)", rb"\1", name[1]).decode("utf-8", "replace"), data))
    return parts
