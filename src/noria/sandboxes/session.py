"""A sandbox that stays: processes run beside each other in it, and its files outlive them. For servers, in asyncio.

Isolated and limited as `bwrap`; one bubblewrap and one control group per session. Nothing inside is trusted: what comes
from there is bounded, and a session that breaks the rules of its wire is closed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import struct
import subprocess
import sys
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from noria.core.errors import SandboxError, UserError
from noria.sandboxes import _cgroup, _jail
from noria.sandboxes._client import spawn

START_S, REPLY_S = 30.0, 60.0
#: Bytes of one process that wait for its listeners before it is told to wait as well.
HIGH, LOW = 1 << 20, 1 << 18
#: Listeners of one process at most.
MAX_LISTENERS = 16
_MAX_HEADER = 16 << 20
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one session may use; `life_s` bounds the processor time of each process."""

    memory_mb: int = 512
    pids: int = 64
    disk_mb: int = 64
    life_s: float = 86_400.0


class Refused(Exception):
    """The session cannot do what it was asked for: `code` in the words of Connect, and why."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code = code


@dataclass(slots=True)
class Event:
    """What a process printed, or its end: `stream` is "stdout", "stderr" or "end"."""

    stream: str
    data: bytes = b""
    code: int = 0


@dataclass(slots=True)
class Process:
    """A process of a session and who listens to it."""

    pid: int
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    tag: str | None
    listeners: list[asyncio.Queue[Event]] = field(default_factory=list)
    waiting: int = 0
    stopped: bool = False
    ended: Event | None = None
    timer: asyncio.TimerHandle | None = None


class Session:
    """One sandbox. Use `open_session`; everything inside ends with `close`."""

    def __init__(self, process: subprocess.Popen[bytes], cage: _cgroup.Cage | None, stage: str, limits: Limits) -> None:
        self._process, self._cage, self._stage, self.limits = process, cage, stage, limits
        self._replies: dict[int, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        self._ids = itertools.count(1)
        self._lock = asyncio.Lock()
        self._starting: dict[int, Process] = {}
        self._errands: set[asyncio.Task[None]] = set()
        self._pump: asyncio.Task[None] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.processes: dict[int, Process] = {}
        self.closed = False

    async def begin(self) -> None:
        """Connect to the resident. Raises SandboxError where it does not come up."""
        loop = asyncio.get_running_loop()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._reader = asyncio.StreamReader(limit=1 << 20)
        await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, self._reader), self._process.stdout)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, self._process.stdin)
        self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        try:
            await asyncio.wait_for(self._frame(), START_S)
        except (TimeoutError, EOFError, ValueError) as fault:
            self._process.kill()
            said = self._process.stderr.read(2000).decode("utf-8", "replace") if self._process.stderr else ""
            raise SandboxError(f"the sandbox did not start: {said.strip() or fault}") from fault
        self._pump = asyncio.create_task(self._listen())

    async def ask(
        self, op: str, payload: bytes = b"", starts: Process | None = None, **details: Any
    ) -> tuple[dict[str, Any], bytes]:
        """One request. Raises Refused where it cannot be done, SandboxError where the sandbox is gone."""
        if self.closed:
            raise SandboxError("the sandbox is gone")
        number = next(self._ids)
        if starts is not None:
            self._starting[number] = starts
        answer: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
        self._replies[number] = answer
        try:
            await asyncio.wait_for(self._put({"id": number, "op": op, **details}, payload), REPLY_S)
            reply, data = await asyncio.wait_for(answer, REPLY_S)
        except TimeoutError as fault:
            await self.close()
            raise SandboxError("the sandbox did not answer in time") from fault
        except (ConnectionError, OSError) as fault:
            raise SandboxError("the sandbox is gone") from fault
        finally:
            self._replies.pop(number, None)
            self._starting.pop(number, None)
        if "error" in reply:
            raise Refused(str(reply["error"]), str(reply.get("said", ""))[:500])
        return reply, data

    async def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        stdin: bool,
        tag: str | None = None,
        limit_s: float | None = None,
    ) -> tuple[Process, asyncio.Queue[Event]]:
        """A process, and a queue of what it does from its beginning on; it is killed after `limit_s`."""
        process, queue = Process(0, argv, env, cwd, tag), asyncio.Queue[Event]()
        process.listeners.append(queue)
        await self.ask("start", starts=process, argv=list(argv), env=dict(env), cwd=cwd, stdin=stdin)
        if limit_s is not None and process.ended is None:
            loop = asyncio.get_running_loop()
            process.timer = loop.call_later(limit_s, lambda: self._aside(self._end(process)))
        return process, queue

    async def _end(self, process: Process) -> None:
        try:
            await self.ask("signal", pid=process.pid, signal=9)
        except (Refused, SandboxError):
            return  # it is over already

    def listen(self, process: Process) -> asyncio.Queue[Event]:
        """A queue of what a process does from now on. Raises Refused where too many listen."""
        if len(process.listeners) >= MAX_LISTENERS:
            raise Refused("resource_exhausted", f"process {process.pid} has {MAX_LISTENERS} listeners")
        queue: asyncio.Queue[Event] = asyncio.Queue()
        process.listeners.append(queue)
        if process.ended is not None:
            queue.put_nowait(process.ended)
        return queue

    async def event(self, process: Process, queue: asyncio.Queue[Event]) -> Event:
        """What arrives next in a queue; the last is the end of the process or of the session."""
        event = await queue.get()
        process.waiting -= len(event.data)
        await self._go_on(process)
        return event

    async def leave(self, process: Process, queue: asyncio.Queue[Event]) -> None:
        """Listen no longer; a process to which nobody listens is not kept waiting."""
        if queue in process.listeners:
            process.listeners.remove(queue)
        while not queue.empty():
            process.waiting -= len(queue.get_nowait().data)
        await self._go_on(process)

    async def close(self) -> None:
        """Kill everything inside and remove what was made outside. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._process.kill()
        for answer in self._replies.values():
            if not answer.done():
                answer.set_exception(SandboxError("the sandbox is gone"))
        for process in self.processes.values():
            if process.timer is not None:
                process.timer.cancel()
            for queue in process.listeners:
                queue.put_nowait(Event("gone"))
        if self._writer is not None:
            self._writer.close()
        if self._pump is not None and self._pump is not asyncio.current_task():
            self._pump.cancel()
        await asyncio.to_thread(self._clear)

    def _clear(self) -> None:
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        if self._cage is not None:
            self._cage.remove()
        _remove_stage(self._stage)

    async def _go_on(self, process: Process) -> None:
        if process.stopped and process.waiting < LOW and not self.closed:
            process.stopped = False
            await self._tell_inside({"op": "flow", "pid": process.pid, "stop": False})

    async def _tell_inside(self, header: dict[str, Any]) -> None:
        """A request without an answer."""
        try:
            await self._put(header, b"")
        except (ConnectionError, OSError):
            return  # the sandbox has ended; its listeners are told

    def _aside(self, errand: Coroutine[Any, Any, None]) -> None:
        """Do what must not be waited for: who reads from inside never waits until inside reads."""
        task = asyncio.get_running_loop().create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _put(self, header: dict[str, Any], payload: bytes) -> None:
        assert self._writer is not None
        text = json.dumps(header).encode()
        async with self._lock:
            self._writer.write(struct.pack(">II", len(text), len(payload)) + text)
            self._writer.write(payload)
            await self._writer.drain()

    async def _frame(self) -> tuple[dict[str, Any], bytes]:
        assert self._reader is not None
        head, body = struct.unpack(">II", await self._reader.readexactly(8))
        if head > _MAX_HEADER or body > (self.limits.disk_mb << 20) + 1:
            raise ValueError("the sandbox sent no valid frame")
        header = json.loads(await self._reader.readexactly(head))
        if not isinstance(header, dict):
            raise ValueError("the sandbox sent no valid frame")
        return header, await self._reader.readexactly(body)

    async def _listen(self) -> None:
        """Pass on what comes from inside until the session ends."""
        try:
            while True:
                header, payload = await self._frame()
                if "id" in header:
                    self._started(header)
                    answer = self._replies.get(header["id"])
                    if answer is not None and not answer.done():
                        answer.set_result((header, payload))
                elif "pid" in header:
                    self._heard(int(header["pid"]), header, payload)
        except (EOFError, ValueError, TypeError, KeyError, OSError):
            await self.close()

    def _started(self, header: dict[str, Any]) -> None:
        """A process is known before anything that it does is heard; one that nobody waits for any more is ended."""
        if "pid" not in header:
            return
        process = self._starting.get(header["id"])
        if process is None:
            self._aside(self._tell_inside({"op": "signal", "pid": header["pid"], "signal": 9}))
            return
        process.pid = int(header["pid"])
        self.processes[process.pid] = process

    def _heard(self, pid: int, header: dict[str, Any], payload: bytes) -> None:
        ended = "code" in header
        event = Event("end", b"", int(header["code"])) if ended else Event(str(header.get("stream")), payload)
        process = self.processes.get(pid)
        if process is None:
            return
        if ended:
            process.ended = event
            del self.processes[pid]
        self._tell(process, event)
        if process.waiting > HIGH and not process.stopped and not ended:
            process.stopped = True
            self._aside(self._tell_inside({"op": "flow", "pid": pid, "stop": True}))

    def _tell(self, process: Process, event: Event) -> None:
        if event.stream == "end":
            process.ended = event
            self.processes.pop(process.pid, None)
            if process.timer is not None:
                process.timer.cancel()
        for queue in process.listeners:
            process.waiting += len(event.data)
            queue.put_nowait(event)


async def open_session(limits: Limits, env: Mapping[str, str]) -> Session:
    """A fresh sandbox. Raises SandboxError where it does not start, UserError where the host does not allow any."""
    process, cage, stage = await asyncio.to_thread(_launch, limits, env)
    session = Session(process, cage, stage, limits)
    try:
        await session.begin()
    except BaseException:
        await asyncio.shield(session.close())
        raise
    return session


def _launch(limits: Limits, env: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], _cgroup.Cage | None, str]:
    name = f"noria-{Path('/proc/self/ns/pid').stat().st_ino}-{os.getpid()}-s{next(_numbers)}"
    links: tuple[tuple[str, str], ...] = (("/home/user", "home"),)
    home = "/home/user"
    try:
        plan = _jail.plan(f"{name}-", (), [path for path, _ in links])
    except UserError:
        links, home = (), f"{_jail.ROOT}/home"
        plan = _jail.plan(f"{name}-", ())
    above = _cgroup.usable(name)
    try:
        cage = _cgroup.make(above, name, limits.memory_mb, limits.pids + 2) if above else None
    except OSError as fault:
        _remove_stage(plan.stage)
        raise SandboxError(f"the sandbox's control group could not be made: {fault}") from fault
    own = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8", "USER": "user"}
    settings = {
        "home": home, "env": {**own, **env}, "memory_mb": limits.memory_mb, "pids": limits.pids,
        "disk_mb": limits.disk_mb, "life_s": limits.life_s, "limit_address_space": cage is None,
    }  # fmt: skip
    python = os.path.realpath(sys.executable)
    command = [python, "-s", "-S", "-B", "-P", f"{_jail.INSIDE}/_resident.py", json.dumps(settings)]
    procs = cage.procs if cage is not None else []
    scripts = ("_resident.py", "_child.py")
    start = partial(_jail.start, plan, procs, limits.disk_mb, command, scripts, links)
    try:
        return spawn(start), cage, plan.stage
    except OSError as fault:
        if cage is not None:
            cage.remove()
        _remove_stage(plan.stage)
        raise SandboxError(f"the sandbox did not start: {fault}") from fault


def _remove_stage(stage: str) -> None:
    if stage and os.path.isdir(stage):
        os.rmdir(stage)
