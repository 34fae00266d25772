"""Connections: one that sends no request in time is closed, and one whose other end is gone is noticed."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: How long the head of a request may take from its first byte, or from the connection's begin, in s.
HEAD_S = 20.0
#: A silent connection is asked whether it lives after so many s, so many s apart, so many times.
IDLE_S, ASK_S, ASKED = 60, 15, 4
#: How long what was sent may wait to be taken, in ms: a client that reads nothing is gone.
UNREAD_MS = 120_000


class Timed(H11Protocol):
    """HTTP/1.1 where heads of requests have a deadline. Uvicorn's own timer ends with the first byte that comes."""

    def __init__(self, *given: Any, head_s: float = HEAD_S, **options: Any) -> None:
        super().__init__(*given, **options)
        self._head_s = head_s
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._unwatch()
        elif self._head is None:
            self._head = self.loop.call_later(self._head_s, self.timeout_keep_alive_handler)

    def _unwatch(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


def keep_alive(listener: socket.socket) -> None:
    """Set what accepted connections inherit, as far as this system knows it."""
    options = [(socket.SOL_SOCKET, "SO_KEEPALIVE", 1)]
    options += [(socket.IPPROTO_TCP, "TCP_KEEPIDLE", IDLE_S), (socket.IPPROTO_TCP, "TCP_KEEPINTVL", ASK_S)]
    options += [(socket.IPPROTO_TCP, "TCP_KEEPCNT", ASKED), (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", UNREAD_MS)]
    for level, name, value in options:
        if hasattr(socket, name):
            listener.setsockopt(level, vars(socket)[name], value)
