"""A server inside a process that has other work: it answers in a thread of its own, on a free port of the loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import uvicorn

from noria.core.errors import EngineError
from noria.server.app import Api
from noria.server.run import Address, Server, settings

T = TypeVar("T")
#: How long the server may take to come up, and what it is asked to do to be done, in s.
START_S, ASK_S = 60.0, 300.0


class Inside:
    """Serves from its making on until it is closed.

    Raises:
        EngineError: it did not come up.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self._listener = Address("127.0.0.1", 0).bind()
        self.root = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        up = threading.Event()
        self._server = Server(uvicorn.Config(api.app(), **settings()), api.loop, 0.0, up.set)
        run = self._server.run
        self._thread = threading.Thread(target=lambda: run(sockets=[self._listener]), name="serving", daemon=True)
        self._thread.start()
        if not up.wait(START_S):
            self.close()
            raise EngineError(f"the server inside did not come up within {START_S:g} s")

    def base_url(self, session: str) -> str:
        """Where a client of a session finds the API."""
        return f"{self.root}/sessions/{session}/v1"

    def ask(self, work: Callable[[], T]) -> T:
        """Do something with the sessions, in the thread that they belong to."""
        assert self.api.events is not None
        answer: Future[T] = asyncio.run_coroutine_threadsafe(_made(work), self.api.events)
        return answer.result(ASK_S)

    def between(self, work: Callable[[], None]) -> None:
        """Do something with the engine, between two of its steps."""
        self.api.loop.between(work).result(ASK_S)

    def close(self) -> None:
        """Stop; what is at work is dropped."""
        self.api.loop.stop()
        self._server.should_exit = True
        self._thread.join(START_S)
        self.api.loop.close()
        self._listener.close()


async def _made(work: Callable[[], T]) -> T:
    return work()
