"""Workers as processes of this machine: one thread each, fed over a pipe.

An executor knows nothing of rollouts. It starts a *service* in each process (a dotted name called with one plain
argument) and passes messages: everything sent to a worker reaches `service.receive`, everything that
`service.work` returns comes back. A worker that died is started again by `restart`; what it owed is the caller's to
send again, since only the caller knows what that was.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from noria.core.errors import EngineError


class Config(BaseModel):
    """Processes of this machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    type: Literal["local"] = "local"
    workers: int = Field(2, ge=1, description="worker processes, each with one thread")


class Service(Protocol):
    """What runs in a worker. `work` does a slice of the work and returns the messages that are ready."""

    def receive(self, message: Any) -> None: ...
    def work(self) -> list[Any]: ...
    def busy(self) -> bool: ...
    def close(self) -> None: ...


class Worker:
    """One process and its pipe.

    Raises (from `send`, `receive`):
        EngineError: the process is gone; its exit code is in the message.
    """

    def __init__(self, service: str, argument: Any) -> None:
        self._service, self._argument = service, argument
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, far = context.Pipe()
        self.process = context.Process(target=_main, args=(far, self._service, self._argument), daemon=True)
        self.process.start()
        far.close()

    def send(self, message: Any) -> None:
        try:
            self.connection.send(message)
        except (BrokenPipeError, ConnectionResetError) as fault:
            raise self._gone() from fault

    def receive(self, timeout_s: float | None = None) -> list[Any]:
        """Messages that are there, waiting up to `timeout_s` for the first (None = for ever, 0 = not at all)."""
        out: list[Any] = []
        try:
            while self.connection.poll(timeout_s if not out else 0):
                out.append(self.connection.recv())
        except (EOFError, ConnectionResetError, BrokenPipeError) as fault:
            if not out:
                raise self._gone() from fault
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
        try:
            self.connection.send(None)
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass
        self.process.join(timeout=3)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()


class LocalExecutor:
    """A fixed set of workers that run the same service."""

    def __init__(self, config: Config, service: str, argument: Any) -> None:
        self.workers = [Worker(service, argument) for _ in range(config.workers)]

    def ready(self, workers: Sequence[int]) -> Iterator[int]:
        """Block until some of `workers` have something to say; yields their indices."""
        by_connection = {self.workers[i].connection: i for i in workers}
        for connection in wait(list(by_connection)):
            assert isinstance(connection, Connection)
            yield by_connection[connection]

    def close(self) -> None:
        for worker in self.workers:
            worker.stop()


def build(config: Config, service: str, argument: Any) -> LocalExecutor:
    """Start the workers."""
    return LocalExecutor(config, service, argument)


def _main(connection: Connection, service: str, argument: Any) -> None:
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
    except (EOFError, BrokenPipeError):
        return
    finally:
        running.close()
