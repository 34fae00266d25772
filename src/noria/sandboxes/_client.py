"""The host's side of the fork server: framing, deadlines, restarts and a small pool of warm servers."""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from noria.core.errors import SandboxError
from noria.core.files import Entry as Entry
from noria.sandboxes._cgroup import Cage
from noria.sandboxes._watching import longest

START_S = 30.0
#: Time a server may need for a request beyond the request's own limit before it counts as stuck.
GRACE_S = 15.0
MAX_HEADER = 64 << 20
#: Folder of the scripts that run on the other side, and what the server consists of.
SCRIPTS = Path(__file__).resolve().parent
SERVER = ("_forkserver.py", "_child.py", "_layers.py", "_testrun.py", "_warm.py", "_watching.py")
#: What is said of a request that took the server with it: nothing inside can be made to die before its server does.
_OUT_OF_MEMORY: dict[str, dict[str, Any]] = {
    "test": {"results": {}, "error": "out of memory"},
    "run": {"code": -9, "timed_out": False, "stdout": "", "stderr": "", "kept": False},
}

_lock = threading.Lock()
_spawner: tuple[int, ThreadPoolExecutor] | None = None


class ServerDied(SandboxError):
    """The server ended while it worked; the request may be tried once more."""


def pack(files: dict[str, Entry]) -> tuple[list[list[Any]], bytes]:
    """Entries of a request's header and the payload that belongs to them."""
    entries = [[path, entry.mode, len(entry.data), entry.link] for path, entry in files.items()]
    return entries, b"".join(entry.data for entry in files.values())


def unpack(entries: list[list[Any]], payload: bytes) -> dict[str, Entry]:
    """Inverse of `pack`."""
    files: dict[str, Entry] = {}
    offset = 0
    for path, mode, size, link in entries:
        files[path] = Entry(payload[offset : offset + size], mode, link)
        offset += size
    return files


def spawn(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Run `start` in one thread that lives as long as the process.

    A child that asked to die with its parent dies with the *thread* that started it, and callers' threads
    come and go.
    """
    global _spawner
    with _lock:
        if _spawner is None or _spawner[0] != os.getpid():
            _spawner = (os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="noria-spawn"))
        executor = _spawner[1]
    return executor.submit(start).result()


class Server:
    """One running fork server. Not thread-safe: the pool hands it to one request at a time."""

    def __init__(
        self, start: Callable[[], subprocess.Popen[bytes]], cage: Cage | None = None, grace_s: float = GRACE_S
    ) -> None:
        """Raises SandboxError when the server does not come up, with what it printed. Owns the cage."""
        self._cage = cage
        self._grace_s = grace_s
        try:
            self._process = spawn(start)
        except OSError as fault:
            if cage is not None:
                cage.remove()
            raise SandboxError(f"the sandbox did not start: {fault}") from fault
        if self._process.stdin is None or self._process.stdout is None:
            raise SandboxError("the server must be started with pipes")
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        try:
            self._receive(time.monotonic() + START_S)
        except SandboxError as fault:
            said = self._complaint()
            self.close()
            raise SandboxError(f"the sandbox did not start: {said or fault}") from fault

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, header: dict[str, Any], payload: bytes, timeout_s: float) -> tuple[dict[str, Any], bytes]:
        """One request. Raises ServerDied, or SandboxError when no answer came; closed after either.

        A server that the kernel ended because the request left no memory is no fault: the request failed.
        """
        began = time.monotonic()
        deadline = began + longest(timeout_s) + self._grace_s
        text = json.dumps(header).encode()
        before = self._cage.oom_kills() if self._cage is not None else 0
        try:
            self._write(struct.pack(">II", len(text), len(payload)) + text, deadline)
            self._write(payload, deadline)
            reply, body = self._receive(deadline)
            reply["out_of_memory"] = self._cage is not None and self._cage.oom_kills() > before
            return reply, body
        except ServerDied:
            crowded = self._cage is not None and self._cage.oom_kills() > before
            self.close()
            if crowded and header["op"] in _OUT_OF_MEMORY:
                about = {"seconds": time.monotonic() - began, "dirty": True, "out_of_memory": True}
                return {**_OUT_OF_MEMORY[header["op"]], **about}, b""
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill the server and with it everything that it started."""
        process = self._process
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        process.wait()
        if self._cage is not None:
            self._cage.remove()

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(self._in, select.POLLOUT, deadline)
            try:
                view = view[os.write(self._in, view[: 1 << 20]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as fault:
                raise ServerDied("the sandbox's server died") from fault

    def _read(self, size: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._wait(self._out, select.POLLIN, deadline)
            try:
                data = os.read(self._out, min(size - len(parts), 1 << 20))
            except BlockingIOError:
                continue
            if not data:
                raise ServerDied("the sandbox's server died")
            parts += data
        return bytes(parts)

    def _receive(self, deadline: float) -> tuple[dict[str, Any], bytes]:
        head, body = struct.unpack(">II", self._read(8, deadline))
        if head > MAX_HEADER:
            raise SandboxError("the sandbox's server sent no valid frame")
        header: dict[str, Any] = json.loads(self._read(head, deadline))
        return header, self._read(body, deadline)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise SandboxError("the sandbox's server did not answer in time")

    def _complaint(self) -> str:
        """What a server that never came up wrote to its standard error."""
        self._process.kill()
        stream = self._process.stderr
        return stream.read(4000).decode("utf-8", "replace").strip() if stream is not None else ""


class Pool:
    """Up to `size` warm servers, started when needed. Thread-safe; a forked process starts its own."""

    def __init__(self, start: Callable[[], Server], size: int) -> None:
        self._start = start
        self._slots = threading.BoundedSemaphore(size)
        self._size = size
        self._lock = threading.Lock()
        self._idle: list[Server] = []
        self._owner = os.getpid()
        self._closed = False

    def ask(self, header: dict[str, Any], payload: bytes, timeout_s: float) -> tuple[dict[str, Any], bytes]:
        """One request on a warm server; a server that died is replaced and the request tried once more.

        Raises SandboxError when it died twice, did not answer, or reported a fault of its own.
        """
        if self._owner != os.getpid():
            self._owner, self._idle, self._lock = os.getpid(), [], threading.Lock()
            self._slots = threading.BoundedSemaphore(self._size)
        with self._slots:
            try:
                return self._once(header, payload, timeout_s)
            except ServerDied:
                return self._once(header, payload, timeout_s)

    def warm(self) -> None:
        """Start one server now. Raises SandboxError when it does not start."""
        server = self._take()
        with self._lock:
            self._idle.append(server)

    def _once(self, header: dict[str, Any], payload: bytes, timeout_s: float) -> tuple[dict[str, Any], bytes]:
        server = self._take()
        reply, body = server.ask(header, payload, timeout_s)
        with self._lock:
            keep = not reply["dirty"] and not self._closed
            if keep:
                self._idle.append(server)
        if not keep:
            server.close()
        if "fault" in reply:
            raise SandboxError(f"the sandbox failed: {reply['fault']}")
        return reply, body

    def _take(self) -> Server:
        with self._lock:
            if self._closed:
                raise SandboxError("the sandbox is closed")
            while self._idle:
                server = self._idle.pop()
                if server.alive:
                    return server
                server.close()
        return self._start()

    def close(self) -> None:
        """Kill the idle servers; one that is working is killed when its request ends. Idempotent."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        if self._owner == os.getpid():
            for server in idle:
                server.close()
