"""A server between a client and a real one that spoils answers as a test says."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Answer:
    """What goes to the client: a status with JSON, or nothing at all where `drops`."""

    status: int = 200
    data: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    drops: bool = False


#: A request's path, its JSON (None for a GET) -> an answer in the server's place, None where that is asked.
Before = Callable[[str, Any], Answer | None]
#: A request's path and JSON -> what the server is asked instead.
Rewrite = Callable[[str, Any], tuple[str, Any]]
#: A request's path, its JSON, the server's answer -> what the client gets.
After = Callable[[str, Any, Any], Any]


class Faulty:
    """Forwards to `target` while its context is open; its rules may be changed at any time."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.before: Before = lambda path, asked: None
        self.rewrite: Rewrite = lambda path, asked: (path, asked)
        self.after: After = lambda path, asked, answer: answer
        self.asked: list[tuple[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Faulty:
        self._thread.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def of(self, path: str) -> list[Any]:
        """The requests that were made to a path."""
        return [asked for at, asked in self.asked if at == path]

    def _answer(self, path: str, asked: Any) -> Answer:
        self.asked.append((path, asked))
        spoilt = self.before(path, asked)
        if spoilt is not None:
            return spoilt
        there, given = self.rewrite(path, asked)
        body = None if given is None else json.dumps(given).encode()
        request = urllib.request.Request(self.target + there, body, {"content-type": "application/json"})
        try:
            with DIRECT.open(request, timeout=60) as found:
                return Answer(data=self.after(path, asked, json.load(found)))
        except urllib.error.HTTPError as fault:
            return Answer(fault.code, json.load(fault))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        faulty = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(faulty._answer(self.path, None))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                self._send(faulty._answer(self.path, json.loads(body or b"{}")))

            def _send(self, answer: Answer) -> None:
                if answer.drops:
                    self.close_connection = True
                    return
                content = json.dumps(answer.data).encode()
                try:
                    self.send_response(answer.status)
                    for key, value in {"content-type": "application/json", **answer.headers}.items():
                        self.send_header(key, value)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                return

        return Handler
