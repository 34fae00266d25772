"""Opens the socket and serves until told to stop; then every sandbox ends."""

from __future__ import annotations

import socket

import uvicorn

from noria.sandboxes.session import Limits
from noria.server.e2b.app import Api
from noria.server.e2b.boxes import Boxes


def make_server(limits: Limits, most: int, key: str) -> uvicorn.Server:
    """A server that is to run on a socket that listens."""
    api = Api(Boxes(limits, most), key)
    config = uvicorn.Config(
        api.app, log_level="warning", lifespan="on", timeout_graceful_shutdown=2, timeout_keep_alive=75, ws="none"
    )
    return uvicorn.Server(config)


def serve(server: uvicorn.Server, listener: socket.socket) -> None:
    """Until a signal, or `should_exit`."""
    server.run([listener])
