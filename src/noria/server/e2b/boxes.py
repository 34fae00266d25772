"""The sandboxes of a server: made, found, kept alive, and ended at their time or with the server."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from noria.core.errors import SandboxError
from noria.sandboxes.session import Limits, Session, open_session
from noria.server.e2b.wire import CallError

#: The version of E2B's own agent whose calls are answered.
AGENT = "0.5.7"
DEFAULT_S, LONGEST_S = 300, 86_400


@dataclass(slots=True)
class Box:
    """One sandbox: `token` is what its calls must carry."""

    id: str
    template: str
    token: str
    metadata: Mapping[str, str]
    session: Session
    started: float
    ends: float
    reaper: asyncio.Task[None] | None = field(default=None)

    def summary(self) -> dict[str, Any]:
        """As the REST interface lists it."""
        limits = self.session.limits
        return {
            "templateID": self.template, "sandboxID": self.id, "clientID": "noria", "envdVersion": AGENT,
            "startedAt": _time(self.started), "endAt": _time(self.ends), "state": "running",
            "cpuCount": 1, "memoryMB": limits.memory_mb, "diskSizeMB": limits.disk_mb, "metadata": dict(self.metadata),
        }  # fmt: skip

    def access(self) -> dict[str, Any]:
        """What a client needs to speak to it."""
        return {
            "templateID": self.template, "sandboxID": self.id, "clientID": "noria", "envdVersion": AGENT,
            "envdAccessToken": self.token, "domain": None,
        }  # fmt: skip


class Boxes:
    """All sandboxes of a server, `most` at the same time."""

    def __init__(self, limits: Limits, most: int) -> None:
        self._limits, self._most = limits, most
        self._boxes: dict[str, Box] = {}
        self._making = 0
        self._closed = False

    def all(self) -> list[Box]:
        """Those that run, the newest first."""
        self._drop_dead()
        return sorted(self._boxes.values(), key=lambda box: (-box.started, box.id))

    def get(self, id_: str) -> Box | None:
        """One that runs."""
        self._drop_dead()
        return self._boxes.get(id_)

    async def make(self, template: str, env: Mapping[str, str], metadata: Mapping[str, str], timeout_s: int) -> Box:
        """A fresh sandbox. Raises CallError where there are too many, or it does not start."""
        self._drop_dead()
        if self._closed or len(self._boxes) + self._making >= self._most:
            raise CallError("resource_exhausted", f"there are {self._most} sandboxes already: kill one, or wait")
        self._making += 1
        try:
            session = await open_session(self._limits, env)
        except SandboxError as fault:
            raise CallError("internal", str(fault)) from fault
        finally:
            self._making -= 1
        now = time.time()
        box = Box(f"i{secrets.token_hex(10)}", template, secrets.token_hex(16), metadata, session, now, now + timeout_s)
        if self._closed:
            await session.close()
            raise CallError("unavailable", "the server is stopping")
        self._boxes[box.id] = box
        box.reaper = asyncio.create_task(self._reap(box))
        return box

    def live_until(self, box: Box, timeout_s: int) -> None:
        """Let a sandbox end `timeout_s` from now."""
        box.ends = time.time() + timeout_s
        if box.reaper is not None:
            box.reaper.cancel()
        box.reaper = asyncio.create_task(self._reap(box))

    def prolong(self, box: Box, timeout_s: int) -> None:
        """Let a sandbox live at least `timeout_s` from now."""
        if time.time() + timeout_s > box.ends:
            self.live_until(box, timeout_s)

    async def kill(self, box: Box) -> None:
        """End one."""
        self._boxes.pop(box.id, None)
        if box.reaper is not None and box.reaper is not asyncio.current_task():
            box.reaper.cancel()
        await box.session.close()

    async def close(self) -> None:
        """End all."""
        self._closed = True
        await asyncio.gather(*(self.kill(box) for box in list(self._boxes.values())))

    async def _reap(self, box: Box) -> None:
        await asyncio.sleep(max(0.0, box.ends - time.time()))
        await self.kill(box)

    def _drop_dead(self) -> None:
        for box in [box for box in self._boxes.values() if box.session.closed]:
            del self._boxes[box.id]
            if box.reaper is not None:
                box.reaper.cancel()


def timeout_of(value: object) -> int:
    """Seconds that a sandbox is to live. Raises CallError for what is no whole number from 0 to a day."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LONGEST_S:
        raise CallError("invalid_argument", f"timeout must be whole seconds from 0 to {LONGEST_S}: got {value!r:.40}")
    return value


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
