"""One rollout of an environment, in a thread with a loop of its own; the policy stands at the other end."""

from __future__ import annotations

import asyncio
import math
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from noria.core.errors import SandboxError, boundary
from noria.envs.verifiers_env.endpoint import Endpoint

#: Seconds that a rollout may take to end once it was told to.
END_S = 20.0


class Rollout:
    """Starts at once; `next` waits for what the environment asks of its model.

    `run` is a coroutine function: address of the endpoint -> the episode of the package.
    """

    def __init__(self, run: Callable[[str], Any], timeout_s: float, patience_s: float = 3600.0) -> None:
        self._timeout_s = timeout_s
        self._events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._endpoint = Endpoint(self._events, patience_s)
        self._is_closed = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(
            target=lambda: boundary(lambda: self._work(run), lambda fault: self._events.put(("failed", fault))),
            name="noria-verifiers", daemon=True,
        )  # fmt: skip
        self._thread.start()

    def next(self, most_s: float = math.inf) -> tuple[str, Any]:
        """`("asked", body)` or `("ended", episode)`, within the time of one answer and within `most_s`.

        Raises:
            SandboxError: neither came in time, or the environment failed.
        """
        limit_s = min(self._timeout_s, most_s)
        try:
            kind, found = self._events.get(timeout=limit_s)
        except queue.Empty:
            raise SandboxError(f"the environment did nothing for {limit_s:.3g} s") from None
        if kind == "failed":
            raise SandboxError(f"the environment failed: {type(found).__name__}: {found}") from found
        return kind, found

    def say(self, message: Mapping[str, Any]) -> None:
        """What the model says to what was asked last."""
        self._endpoint.say(dict(message))

    def close(self) -> None:
        """End the rollout where it is not over, with its servers."""
        self._is_closed.set()
        loop, task = self._loop, self._task
        if loop is not None and task is not None and self._thread.is_alive():
            boundary(lambda: loop.call_soon_threadsafe(task.cancel), lambda fault: None)  # the loop may just have ended
        self._endpoint.close()
        self._thread.join(END_S)

    def _work(self, run: Callable[[str], Any]) -> None:
        async def main() -> Any:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self._is_closed.is_set():  # before there was anything to cancel
                raise asyncio.CancelledError
            return await run(self._endpoint.url)

        try:
            episode = asyncio.run(main())
        except asyncio.CancelledError:
            return
        self._events.put(("ended", episode))
