"""A server with written answers on a loopback port: for tests, demonstrations and dry runs.

It speaks as much of `/v1/chat/completions` (or another `path`) as a client needs, faults included, and answers from
a list or a function:

    with ScriptedServer(["first answer", Reply(status=429), "answer from here on"]) as server:
        build(Config(base_url=server.url, model="any"))
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: `body` as it stands if given, else a completion, or an error where `status` says so."""

    text: str | None = ""
    refusal: str | None = None
    status: int = 200
    delay_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None

    def content(self, model: str) -> bytes:
        """What goes over the wire."""
        if self.body is not None:
            return self.body.encode()
        if self.status >= 400:
            kind = {"message": self.text or f"scripted status {self.status}", "type": "scripted"}
            return json.dumps({"error": kind}).encode()
        message = {"role": "assistant", "content": self.text, "refusal": self.refusal}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return json.dumps(
            {"id": "scripted", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
        ).encode()


Answer = str | Reply
Rule = Callable[[Mapping[str, Any]], Answer]


class ScriptedServer:
    """Serves while its context is open.

    `models` is what it lists at `/v1/models`. A list's last answer is repeated; a function is handed the request's
    JSON. `requests` holds the JSON of each request so far, in the order of arrival, `headers` their headers with
    lower-case names.
    """

    def __init__(self, replies: Sequence[Answer] | Rule, path: str = PATH, models: Sequence[str] = ()) -> None:
        if not callable(replies) and not replies:
            raise ValueError("replies must hold at least one answer")
        self._replies, self._path = replies, path
        self._cards = {"object": "list", "data": [{"id": name, "object": "model"} for name in models]}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The `base_url` for a client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _reply(self, request: dict[str, Any], headers: Mapping[str, str]) -> Reply:
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.headers.append({key.lower(): value for key, value in headers.items()})
        if callable(self._replies):
            answer = self._replies(request)
        else:
            answer = self._replies[min(number, len(self._replies) - 1)]
        return Reply(answer) if isinstance(answer, str) else answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(200, {}, json.dumps(server._cards).encode())

            def do_POST(self) -> None:
                request = _request(self.rfile.read(int(self.headers.get("content-length", 0))))
                known = self.path == server._path
                if not known or request is None:
                    reply = Reply("not a request with a model and messages or a prompt" if known else "no such path")
                    self._send(400 if known else 404, {}, reply.content(""))
                    return
                reply = server._reply(request, dict(self.headers.items()))
                server._closing.wait(reply.delay_s)
                self._send(reply.status, reply.headers, reply.content(str(request["model"])))

            def _send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
                try:
                    self.send_response(status)
                    for key, value in {"content-type": "application/json", **headers}.items():
                        self.send_header(key, value)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client lost its patience, which scripts ask for

            def log_message(self, format: str, *args: Any) -> None:
                return

        return Handler


def _request(body: bytes) -> dict[str, Any] | None:
    """The request, None unless it is a JSON object with a model, and messages or a prompt."""
    try:
        data = json.loads(body)
    except ValueError:
        return None
    asks = isinstance(data, dict) and "model" in data and ("messages" in data or "prompt" in data)
    return data if asks else None
