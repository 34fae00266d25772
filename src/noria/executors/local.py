"""Workers as processes of this machine: one thread each, fed over a pipe.

In each process runs one *service* (a dotted name called with one plain argument); see `core.protocols.Executor`.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import EngineError
from noria.core.protocols import Service

#: Seconds in which a worker whose parent is gone may put things in order.
_ALONE_S = 3.0


class Config(Checked):
    """Processes of this machine."""

    type: Literal["local"] = "local"
    workers: int = Field(2, ge=1, description="worker processes, each with one thread")
    start: Literal["spawn", "fork"] = Field(
        "spawn",
        description="spawn = a worker imports everything anew; fork = it is a copy of this process: at once there, and "
        "safe only where torch has one thread",
    )


class Worker:
    """One process and its pipe. A thread drains the pipe all the time, so that neither side ever waits for the
    other to read: a worker that has much to say can still be told something.

    Raises (from `send`, `receive`):
        EngineError: the process is gone; its exit code is in the message.
    """

    def __init__(self, service: str, argument: Any, bell: threading.Condition, start: str = "spawn") -> None:
        self._service, self._argument, self._bell = service, argument, bell
        self._context: Any = multiprocessing.get_context(start)
        self._start()

    def _start(self) -> None:
        self.connection, far = self._context.Pipe()
        # A copy of this process holds this end of the pipe too; unless it lets go, it would not see us die.
        near = self.connection if self._context.get_start_method() == "fork" else None
        self.process = self._context.Process(target=_main, args=(far, self._service, self._argument, near), daemon=True)
        self.process.start()
        far.close()
        self._inbox: deque[Any] = deque()
        self._ended = threading.Event()
        arguments = (self.connection, self._inbox, self._ended, self._bell)
        self._reader = threading.Thread(target=_drain, args=arguments, daemon=True, name="worker-pipe")
        self._reader.start()

    @property
    def speaks(self) -> bool:
        """Whether there is a message, or the end of the process to learn of."""
        return bool(self._inbox) or self._ended.is_set()

    def send(self, message: Any) -> None:
        try:
            self.connection.send(message)
        except (BrokenPipeError, ConnectionResetError, OSError) as fault:
            raise self._gone() from fault

    def receive(self, timeout_s: float | None = None) -> list[Any]:
        """Messages that are there, waiting up to `timeout_s` for the first (None = for ever, 0 = not at all)."""
        with self._bell:
            self._bell.wait_for(lambda: self.speaks, timeout_s)
            out = list(self._inbox)
            self._inbox.clear()
        if not out and self._ended.is_set():
            raise self._gone()
        return out

    def _gone(self) -> EngineError:
        self.process.join(timeout=5)
        return EngineError(f"worker process died with exit code {self.process.exitcode}")

    def restart(self) -> None:
        """Kill what is left of the process and start a new one."""
        self.stop()
        self._start()

    def stop(self) -> None:
        """Ask the process to end, then make it."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, OSError):
            self.connection.send(None)
        self.process.join(timeout=3)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        # It still reads what the process had said; were the pipe closed under it, it could read from the next one.
        self._reader.join(timeout=5)
        self.connection.close()


def _drain(connection: Connection, inbox: deque[Any], ended: threading.Event, bell: threading.Condition) -> None:
    """Move messages from a pipe to a queue until the pipe ends."""
    try:
        while True:
            message = connection.recv()
            with bell:
                inbox.append(message)
                bell.notify_all()
    except (EOFError, OSError):
        pass
    finally:
        with bell:
            ended.set()
            bell.notify_all()


class LocalExecutor:
    """A fixed set of processes that run the same service (`core.protocols.Executor`)."""

    def __init__(self, config: Config, service: str, argument: Any) -> None:
        self.size = config.workers
        self._bell = threading.Condition()
        self.workers = [Worker(service, argument, self._bell, config.start) for _ in range(config.workers)]

    def send(self, worker: int, message: Any) -> None:
        self.workers[worker].send(message)

    def receive(self, worker: int, timeout_s: float | None) -> list[Any]:
        return self.workers[worker].receive(timeout_s)

    def ready(self, workers: Sequence[int]) -> list[int]:
        """Wait until some of `workers` have something to say; returns which."""
        with self._bell:
            self._bell.wait_for(lambda: any(self.workers[i].speaks for i in workers))
            return [i for i in workers if self.workers[i].speaks]

    def restart(self, worker: int) -> None:
        self.workers[worker].restart()

    def close(self) -> None:
        for worker in self.workers:
            worker.stop()


def build(config: Config, service: str, argument: Any) -> LocalExecutor:
    """Start the workers."""
    return LocalExecutor(config, service, argument)


def _follow() -> None:
    """End this process soon after the one that started it, also in the middle of long work."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        time.sleep(_ALONE_S)
        os._exit(1)


def _main(connection: Connection, service: str, argument: Any, near: Connection | None) -> None:
    if near is not None:
        near.close()
    threading.Thread(target=_follow, daemon=True, name="parent").start()
    # The terminal's interrupt belongs to the parent, which decides what to save before it stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    module, name = service.rsplit(".", 1)
    running: Service = getattr(importlib.import_module(module), name)(argument)
    try:
        while True:
            while connection.poll(0 if running.busy() else None):
                message = connection.recv()
                if message is None:
                    return
                running.receive(message)
            for out in running.work():
                connection.send(out)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    finally:
        running.close()
