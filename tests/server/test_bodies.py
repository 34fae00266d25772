"""Bodies that are too large, too slow or never end, from real sockets: an answer for each, and no harm to others."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
import uvicorn
from serving import Served
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from noria.server.bodies import Drained, read_body
from noria.server.errors import ApiError
from noria.server.wire import Timed

KEY = "k-bodies"
MODEL = "builtin:tiny"
MEGABYTE = 1 << 20
#: The largest body that the server reads.
MOST = 32 * MEGABYTE


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with Served(MODEL, "--max-model-len", "320", "--slots", "2", "--api-key-env", "NORIA_TEST_KEY", key=KEY) as found:
        yield found


def connection(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60)


def head(*more: str, key: str = KEY, path: str = "/v1/completions", kind: str = "application/json") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: here", f"authorization: Bearer {key}", f"content-type: {kind}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answer(link: socket.socket) -> tuple[int, dict[str, str], Any]:
    """Status, headers and JSON of the one answer on a connection that the server closes after it."""
    found = b""
    while piece := link.recv(1 << 16):
        found += piece
    top, _, body = found.partition(b"\r\n\r\n")
    first, *lines = top.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, json.loads(body)


def chunks(size: int) -> Iterator[bytes]:
    piece = b"%x\r\n" % MEGABYTE + b" " * MEGABYTE + b"\r\n"
    for _ in range(size // MEGABYTE):
        yield piece
    yield b"0\r\n\r\n"


def peak_mb(server: Served) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def ask(server: Served) -> str:
    done = server.client().completions.create(model=MODEL, prompt="compute 3 + 4", max_tokens=4, temperature=0)
    return str(done.choices[0].text)


def test_a_body_of_40_mb_is_refused_by_name_to_the_real_client(server: Served) -> None:
    with pytest.raises(openai.APIStatusError) as found:
        server.client().completions.create(model=MODEL, prompt=" " * (40 * MEGABYTE))
    assert found.value.status_code == 413
    error: Any = found.value.body
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", "request_too_large")
    assert f"at most {MOST} bytes" in error["message"]


def test_chunks_without_a_length_are_counted_and_not_kept(server: Served) -> None:
    ask(server)
    before = peak_mb(server)
    with connection(server.url) as link:
        link.sendall(head("transfer-encoding: chunked"))
        for piece in chunks(200 * MEGABYTE):
            link.sendall(piece)
        status, headers, body = answer(link)
    assert (status, headers["connection"], body["error"]["code"]) == (413, "close", "request_too_large")
    # What was read before the bound was reached, and what the sockets hold.
    assert peak_mb(server) - before < 2 * MOST / MEGABYTE


def test_the_answer_comes_before_the_body_has_ended(server: Served) -> None:
    with connection(server.url) as link:
        link.sendall(head(f"content-length: {100 * MEGABYTE}") + b" " * MEGABYTE)
        assert link.recv(12) == b"HTTP/1.1 413"


def test_a_body_of_the_largest_size_is_read(server: Served) -> None:
    body = json.dumps({"model": MODEL, "prompt": "compute 3 + 4", "max_tokens": 2}).encode()
    with connection(server.url) as link:
        link.sendall(head(f"content-length: {MOST}", "connection: close") + body + b" " * (MOST - len(body)))
        status, _, found = answer(link)
    assert (status, found["usage"]["completion_tokens"]) == (200, 2)


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"key": "k-other"}, 401),
        ({"path": "/v1/nothing"}, 404),
        ({"kind": "text/plain"}, 415),
        ({"path": "/health"}, 405),
    ],
)
def test_every_refusal_reaches_a_client_that_sends_on(server: Served, options: Any, status: int) -> None:
    with connection(server.url) as link:
        link.sendall(head(f"content-length: {40 * MEGABYTE}", **options))
        for _ in range(40):
            link.sendall(b" " * MEGABYTE)
        found, headers, body = answer(link)
    assert (found, headers["connection"]) == (status, "close") and body["error"]["message"]


def test_who_waits_to_be_asked_is_not_asked_for_too_much(server: Served) -> None:
    with connection(server.url) as link:
        link.sendall(head(f"content-length: {40 * MEGABYTE}", "expect: 100-continue"))
        status, _, _ = answer(link)
    assert status == 413
    body = json.dumps({"model": MODEL, "prompt": "a", "max_tokens": 1}).encode()
    with connection(server.url) as link:
        link.sendall(head(f"content-length: {len(body)}", "expect: 100-continue", "connection: close"))
        assert link.recv(100).startswith(b"HTTP/1.1 100 ")
        link.sendall(body)
        assert answer(link)[0] == 200


def test_a_small_refused_body_keeps_nothing_open_and_a_served_one_keeps_its_connection(server: Served) -> None:
    body = json.dumps({"model": MODEL, "prompt": "a", "max_tokens": 1}).encode()
    with connection(server.url) as link:
        for _ in range(2):
            link.sendall(head(f"content-length: {len(body)}") + body)
            found = link.recv(1 << 16)
            while b'"usage"' not in found:
                found += link.recv(1 << 16)
            assert found.startswith(b"HTTP/1.1 200 ") and b"connection: close" not in found


def test_clients_that_say_half_of_something_block_nobody(server: Served) -> None:
    wanted = ask(server)
    halves = [b"", b"POST /v1/comp", head("content-length: 100000")[:-2], head("content-length: 100000") + b'{"model"']
    halves.append(head("transfer-encoding: chunked") + b"400\r\n{")
    links = [connection(server.url) for _ in range(100)]
    try:
        for k, link in enumerate(links):
            link.sendall(halves[k % len(halves)])
        assert ask(server) == wanted
    finally:
        for link in links:
            link.close()
    assert ask(server) == wanted


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body within 0.2 s and tells how long it is."""
    try:
        said: dict[str, Any] = {"bytes": len(await read_body(Request(scope, receive), body_s=0.2))}
        status = 200
    except ApiError as fault:
        said, status = fault.body(), fault.status
    await JSONResponse(said, status)(scope, receive, send)


@pytest.fixture(scope="module")
def impatient() -> Iterator[str]:
    """The address of a server that waits 0.2 s for heads, for bodies, and for the rest of refused bodies."""
    listener = socket.create_server(("127.0.0.1", 0))
    protocol: Any = partial(Timed, head_s=0.2)
    config = uvicorn.Config(Drained(reading, drain_s=0.2), http=protocol, lifespan="off", log_config=None)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, args=([listener],))
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    running.should_exit = True
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("said", [b"", b"POST /v1/completions HTTP/1.1\r\nhost: he", b"GET /health HTTP/1.1\r\n"])
def test_a_head_that_does_not_come_ends_its_connection(impatient: str, said: bytes) -> None:
    with connection(impatient) as link:
        link.sendall(said)
        assert link.recv(1) == b""


def test_the_second_head_of_a_connection_has_its_deadline_too(impatient: str) -> None:
    with connection(impatient) as link:
        link.sendall(b"GET /a HTTP/1.1\r\nhost: here\r\n\r\n")
        found = b""
        while b"}" not in found:
            found += link.recv(1 << 16)
        link.sendall(b"GET /b")
        assert found.startswith(b"HTTP/1.1 200 ") and link.recv(1) == b""


def test_a_body_that_does_not_come_is_told_so(impatient: str) -> None:
    with connection(impatient) as link:
        link.sendall(head("content-length: 100") + b'{"a"')
        status, headers, body = answer(link)
    assert (status, headers["connection"]) == (408, "close")
    assert body["error"]["message"] == "the request must arrive within 0.2 s: 4 bytes did"


def test_a_body_that_is_cut_off_hurts_nobody(impatient: str) -> None:
    with connection(impatient) as link:
        link.sendall(head("content-length: 100") + b'{"a"')
    with connection(impatient) as link:
        link.sendall(head("transfer-encoding: chunked", "connection: close") + b"3\r\n abc\r\n")
        assert link.recv(1 << 10)
    with connection(impatient) as link:
        link.sendall(head("content-length: 3", "connection: close") + b"abc")
        assert answer(link)[2] == {"bytes": 3}
