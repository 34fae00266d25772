"""Opens the socket, serves until told to stop, finishes what was begun."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn

from noria.core.errors import UserError
from noria.server.app import Api
from noria.server.loop import DecodingLoop
from noria.server.wire import HEAD_S, Timed, keep_alive

BACKLOG = 512
#: How long answers may take to leave once the last one is decoded, in s.
FLUSH_S = 2


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes a free one."""

    host: str
    port: int

    def bind(self) -> socket.socket:
        """A socket that listens: clients wait until the server is up.

        Raises:
            UserError: the address cannot be had.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((self.host, self.port))
            found.listen(BACKLOG)  # two that are bound and do not listen may have one address
        except OSError as fault:
            found.close()
            raise UserError(
                f"--host and --port must name a free address of this machine: got {self.host} and {self.port} "
                f"({fault.strerror}) - choose another port, or 0 for any"
            ) from fault
        return found


class Server(uvicorn.Server):
    """The first signal drains: new requests get 503, those at work end, for `drain_s` at most. A second one stops."""

    def __init__(self, config: uvicorn.Config, loop: DecodingLoop, drain_s: float, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._loop, self._drain_s, self._ready = loop, drain_s, ready
        self._deadline: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._drain_s
            self._loop.stop()
        else:
            self.should_exit = True
            self.force_exit = sig == signal.SIGINT

    async def on_tick(self, counter: int) -> bool:
        if self._deadline is not None and (not self._loop.busy or time.monotonic() > self._deadline):
            self.should_exit = True
        return await super().on_tick(counter)


def log(text: str) -> None:
    """One line or a trace for whoever runs the server."""
    sys.stderr.write(text if text.endswith("\n") else f"{text}\n")
    sys.stderr.flush()


def settings(head_s: float = HEAD_S) -> dict[str, Any]:
    """What uvicorn is told; `head_s` is how long a connection may take to say what it wants."""
    protocol = cast(type[asyncio.Protocol], partial(Timed, head_s=head_s))
    return {
        "loop": "asyncio", "http": protocol, "ws": "none", "lifespan": "on", "log_config": None,
        "log_level": "warning", "access_log": False, "server_header": False, "backlog": BACKLOG,
        "timeout_keep_alive": 30, "timeout_graceful_shutdown": FLUSH_S,
    }  # fmt: skip


def serve(api: Api, listener: socket.socket, drain_s: float, ready: Callable[[], None], head_s: float = HEAD_S) -> None:
    """Serve until a signal comes; returns once everything is finished or given up.

    Args:
        head_s: how long a connection may take to say what it wants.
    """
    keep_alive(listener)
    # asyncio warns at each further piece for a client that has gone; whoever reads an answer may go at any time.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    config = uvicorn.Config(api.app(), **settings(head_s))
    try:
        Server(config, api.loop, drain_s, ready).run(sockets=[listener])
    finally:
        api.loop.close()
        listener.close()
