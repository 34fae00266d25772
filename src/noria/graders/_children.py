"""Child processes for work that can hang: each does one piece at a time and is killed when its time is up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noria.core.errors import SandboxError, UserError

#: Longest line that a child answers with, in bytes.
_MAX_LINE = 2**20
#: Time in which a child must have imported what it needs; slow machines take seconds for sympy.
_START_S = 180.0
#: Wall clock that a piece of work may take for each second of processor time that it has: machines are shared.
_WALL_PER_S = 10.0
#: Time in which killed children must be gone.
_ENDING_S = 10.0
_SOURCE = Path(__file__).resolve().parents[2]


#: What the reasons of work that used up its time begin with.
TOO_SLOW = "no verdict within"


class TooSlow(SandboxError):
    """A piece of work used up its time and was killed. A repetition would not tell more."""


@dataclass(slots=True, eq=False)
class _Child:
    process: asyncio.subprocess.Process
    loaded: set[str] = field(default_factory=set)


class Children:
    """At most `size` child processes, started when needed, each limited to `memory_mb` MiB of address space.

    Belongs to one event loop. `argv` replaces the program, for tests of what happens when it fails.
    """

    def __init__(self, size: int = 2, memory_mb: int = 2048, argv: Sequence[str] = ()) -> None:
        self._places = asyncio.Semaphore(size)
        self._argv = list(argv) or [sys.executable, "-s", "-B", "-P", "-m", "noria.graders._child", str(memory_mb)]
        self._idle: list[_Child] = []
        self._alive: set[_Child] = set()
        self._ends: set[asyncio.Task[int]] = set()
        self.started = 0

    async def run(self, module: str, payload: Any, timeout_s: float) -> Any:
        """What `work(payload)` of a module answers; waits for a free child first.

        `timeout_s` is in seconds of processor time, so that a busy machine changes no outcome; ten times as much wall
        clock ends it as well.

        Raises:
            TooSlow: it took longer; the child is dead.
            SandboxError: the child died, or ran out of memory.
            UserError: a package that the work needs is missing.
        """
        async with self._places:
            child = self._idle.pop() if self._idle else await self._start()
            sound = False
            try:
                if module not in child.loaded:
                    await self._ask(child, {"module": module}, _START_S)
                    child.loaded.add(module)
                answer = await self._ask(child, {"module": module, "payload": payload}, timeout_s)
                sound = True
            finally:
                # Also when the caller was cancelled: a child in the middle of something is of no use to the next.
                if sound:
                    self._idle.append(child)
                else:
                    self._kill(child)
        return answer

    async def close(self) -> None:
        """Kill all children and wait for their ends."""
        for child in [*self._alive]:
            self._kill(child)
        self._idle.clear()
        if self._ends:
            await asyncio.wait(self._ends, timeout=_ENDING_S)

    async def _start(self) -> _Child:
        pipe, path = asyncio.subprocess.PIPE, os.environ.get("PYTHONPATH", "")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_SOURCE), path] if path else [str(_SOURCE)])}
        environment |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, env=environment,
                start_new_session=True, limit=_MAX_LINE,
            )  # fmt: skip
        except OSError as fault:
            raise SandboxError(f"a child process could not be started: {fault}") from fault
        child = _Child(process)
        self._alive.add(child)
        self.started += 1
        return child

    async def _ask(self, child: _Child, asked: dict[str, Any], timeout_s: float) -> Any:
        line = json.dumps({**asked, "limit_s": timeout_s, "wall_s": timeout_s * _WALL_PER_S}).encode() + b"\n"
        stdin, stdout = child.process.stdin, child.process.stdout
        assert stdin is not None and stdout is not None
        try:
            async with asyncio.timeout(timeout_s * _WALL_PER_S):
                stdin.write(line)
                await stdin.drain()
                said = await stdout.readline()
                if not said:
                    await child.process.wait()
        except TimeoutError as fault:
            raise TooSlow(f"{TOO_SLOW} {timeout_s * _WALL_PER_S:g} s") from fault
        except (OSError, ValueError) as fault:
            raise SandboxError(f"a child process broke off: {fault}") from fault
        if not said and child.process.returncode == -signal.SIGPROF:
            raise TooSlow(f"{TOO_SLOW} {timeout_s:g} s of processor time")
        try:
            answer = json.loads(said)
        except ValueError as fault:
            raise SandboxError(f"a child process died ({child.process.returncode})") from fault
        if not isinstance(answer, dict) or answer.keys() <= {"fault"}:
            raise SandboxError(f"a child process failed: {answer}")
        if "missing" in answer:
            raise _missing(str(answer["missing"]))
        return answer.get("answer")

    def _kill(self, child: _Child) -> None:
        self._alive.discard(child)
        if child.process.returncode is None:
            try:
                os.killpg(child.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has just ended
        end = asyncio.ensure_future(child.process.wait())
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)


def _missing(package: str) -> UserError:
    root = package.partition(".")[0]
    extra = {"math_verify": "math", "latex2sympy2_extended": "math"}.get(root)
    fix = f'run `pip install "noria[{extra}]"`' if extra else "install it"
    return UserError(f"grader needs the package {root!r}, which is missing - {fix}")
