"""The endpoint that an environment takes for its model: every request waits for what the policy says."""

from __future__ import annotations

import json
import queue
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Bytes of one request.
MOST_BYTES = 64 << 20


class Endpoint:
    """An OpenAI-compatible server of one rollout on loopback, under an address that cannot be guessed.

    What is asked is put on `events` as `("asked", body)`; `say` answers the request that waits. `close` ends it, and
    whoever waits then, or for longer than `patience_s`, is told that there is no model.
    """

    def __init__(self, events: queue.Queue[tuple[str, Any]], patience_s: float) -> None:
        self._events, self._patience_s = events, patience_s
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._closed = threading.Event()
        self._path = f"/{secrets.token_urlsafe(16)}/v1"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{self._path}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def say(self, message: dict[str, Any]) -> None:
        """Answer the request that waits."""
        self._answers.put(message)

    def close(self) -> None:
        """End the server."""
        self._closed.set()
        self._answers.put(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _reply(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """A chat completion of what the policy says, None where it is gone."""
        if self._closed.is_set():
            return None
        self._events.put(("asked", body))
        try:
            message = self._answers.get(timeout=self._patience_s)
        except queue.Empty:
            self._closed.set()
            return None
        if message is None:
            self._answers.put(None)
            return None
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return {
            "id": f"chatcmpl-{secrets.token_hex(8)}", "object": "chat.completion", "created": 0,
            "model": str(body.get("model", "")), "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        }  # fmt: skip

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            """POST of a chat; all else is not there."""

            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                if self.path != f"{endpoint._path}/chat/completions" or length > MOST_BYTES:
                    self._send(404, {"error": {"message": "no such path"}})
                    return
                try:
                    body = json.loads(self.rfile.read(length))
                except ValueError:
                    self._send(400, {"error": {"message": "no JSON"}})
                    return
                said = endpoint._reply(body)
                self._send(200 if said else 410, said or {"error": {"message": "the policy is gone"}})

            def _send(self, code: int, answer: dict[str, Any]) -> None:
                text = json.dumps(answer).encode()
                try:
                    self.send_response(code)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    pass  # nobody waits any more

            def log_message(self, format: str, *args: Any) -> None:
                """Requests are not news."""

        return Handler
