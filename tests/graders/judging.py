"""A judge that is a script behind a real server on loopback, and parts that fail on purpose."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noria.core.errors import EngineError, SandboxError
from noria.core.protocols import TestReport, Workspace
from noria.core.types import Message
from noria.engines.scripted import Answer, Reply, ScriptedServer
from noria.graders._chat import ChatJudge, JudgeConfig, connected
from noria.graders._children import Children

#: The conversation -> what the judge says; a number is the status of an error.
Script = Callable[[Sequence[Mapping[str, str]]], str | int]


class JudgeServer:
    """`/v1/chat/completions` that answers as a script does; `asked` holds the conversations it was sent."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._server = ScriptedServer(self._reply).__enter__()
        self.url, self.asked = self._server.url, self._server.requests

    def _reply(self, request: Mapping[str, Any]) -> Answer:
        said = self.script(request["messages"])
        return said if isinstance(said, str) else Reply(status=said)

    def client(self) -> ChatJudge:
        """The real client."""
        return connected(JudgeConfig(base_url=self.url, model="script", timeout_s=20, max_retries=0))

    def close(self) -> None:
        self._server.__exit__()


class BrokenSandbox:
    """Every use of it fails."""

    def workspace(self, files: Mapping[str, str]) -> Workspace:
        raise SandboxError("the machine is gone")

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        raise SandboxError("the machine is gone")

    def close(self) -> None:
        """Nothing is held."""


class StuckSandbox:
    """Every use of it waits until it is closed."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def workspace(self, files: Mapping[str, str]) -> Workspace:
        self._over.wait(60)
        raise SandboxError("closed")

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        self._over.wait(60)
        raise SandboxError("closed")

    def close(self) -> None:
        self._over.set()


class BrokenJudge:
    """Never says anything."""

    async def ask(self, messages: Sequence[Message], seed: int) -> str:
        raise EngineError("connection refused")

    async def close(self) -> None:
        """Nothing is held."""


class StuckJudge:
    """Waits for ever."""

    async def ask(self, messages: Sequence[Message], seed: int) -> str:
        import asyncio

        await asyncio.sleep(3600)
        return ""

    async def close(self) -> None:
        """Nothing is held."""


def broken_children() -> Children:
    """Children that die at once."""
    return Children(1, argv=[sys.executable, "-S", "-c", "raise SystemExit(3)"])


def stuck_children() -> Children:
    """Children that never answer."""
    return Children(1, argv=[sys.executable, "-S", "-c", "import time; time.sleep(3600)"])
