"""Sandboxes of an E2B server: E2B's own, one that speaks its protocol, or `noria sandbox serve`.

Each request is carried to one of `servers` remote sandboxes, run there by the house's own fork server, and what it
changed is carried back, so that a workspace is what it is elsewhere. Remote sandboxes end when they are closed, and
after `life_s` without a request.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import secrets
import struct
import time
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import e2b
import httpx
from connectrpc.errors import ConnectError
from e2b.exceptions import SandboxNotRunningException, ServiceBusyException
from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import SandboxError, UserError
from noria.core.protocols import TestReport
from noria.sandboxes._client import SCRIPTS, SERVER, Pool, Server, ServerDied
from noria.sandboxes._watching import longest
from noria.sandboxes._workspace import MemoryWorkspace, run_test, table

_FAULTS = (e2b.SandboxException, httpx.HTTPError, ConnectError, OSError)
#: What a request may take beyond its own limit, over a network.
_GRACE_S = 30.0
#: Between two requests for a sandbox that a full server refused; doubled each time, and spread so that clients part.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class Config(Checked):
    """Where the server is, and limits of each request, which hold for each process of it.

    A remote sandbox needs Python 3.10 and three times `disk_mb` below /tmp. The key is read from the environment
    variable that `api_key_env` names, never from a recipe.
    """

    type: Literal["e2b"] = "e2b"
    url: str = Field(default="", description="address of the server, as http://127.0.0.1:49982; empty: E2B's own")
    api_key_env: str = Field(default="E2B_API_KEY", description="environment variable that holds the key")
    template: str = Field(default="base", description="template of the remote sandboxes")
    memory_mb: int = Field(default=512, ge=64, description="address space of each process")
    disk_mb: int = Field(default=64, ge=1, description="size of a workspace")
    output_kb: int = Field(default=64, ge=1, description="of each stream of a command, head and tail")
    timeout_s: float = Field(default=5.0, gt=0, description="of one test run at most")
    servers: int = Field(default=2, ge=1, description="remote sandboxes, and requests at the same time")
    room_s: float = Field(
        default=60.0, ge=0, le=3600, description="seconds that a server which is full or busy (429, 503) is asked again"
    )
    life_s: int = Field(default=300, ge=60, le=86_400, description="a remote sandbox ends so long after a request")


class Remote(Server):
    """One remote sandbox in the place of a local server."""

    def __init__(self, config: Config, key: str) -> None:
        """Raises SandboxError where it cannot be had."""
        self._config = config
        options: dict[str, Any] = {"api_key": key}
        if config.url:
            options |= {"api_url": config.url, "sandbox_url": config.url, "http_version": "1.1"}
        self._folder = f"/tmp/noria-{secrets.token_hex(6)}"
        self._closed = False
        self._until = time.monotonic() + config.life_s
        self._box = _created(config, options)
        try:
            for name in (*SERVER, "_relay.py"):
                self._box.files.write(f"{self._folder}/{name}", (SCRIPTS / name).read_bytes())
        except _FAULTS as fault:
            self.close()
            raise SandboxError(f"the E2B sandbox takes no files: {fault}") from fault

    @property
    def alive(self) -> bool:
        """Whether it can be asked, as far as is known here."""
        return not self._closed and time.monotonic() < self._until - 10

    def ask(self, header: dict[str, Any], payload: bytes, timeout_s: float) -> tuple[dict[str, Any], bytes]:
        """One request. Raises ServerDied, or SandboxError when no answer came; closed after either."""
        config, key = self._config, secrets.token_bytes(32)
        settings = {
            "root": f"{self._folder}/workspace", "scratch": [f"{self._folder}/workspace"],
            "memory_mb": config.memory_mb, "pids": 0, "disk_mb": config.disk_mb, "output_kb": config.output_kb,
            "limit_address_space": True,
        }  # fmt: skip
        text = json.dumps(header).encode()
        frames = struct.pack(">II", len(text), len(payload)) + text + payload
        command = f"exec python3 -I -S -B {self._folder}/_relay.py {self._folder}"
        limit_s = longest(timeout_s) + _GRACE_S
        try:
            self._box.set_timeout(max(config.life_s, int(limit_s) + 60))
            self._until = time.monotonic() + config.life_s
            self._box.files.write(f"{self._folder}/request", json.dumps(settings).encode() + b"\n" + frames)
            self._box.commands.run(command, envs={"NORIA_KEY": key.hex()}, timeout=limit_s)
            said = bytes(self._box.files.read(f"{self._folder}/reply", format="bytes"))
        except e2b.CommandExitException as fault:
            self.close()
            raise ServerDied(f"the E2B sandbox's server died: {fault.stderr[-200:]}") from fault
        except SandboxNotRunningException as fault:
            self.close()
            raise ServerDied(f"the E2B sandbox is gone: {fault}") from fault
        except e2b.TimeoutException as fault:
            self.close()
            raise SandboxError("the E2B sandbox did not answer in time") from fault
        except _FAULTS as fault:
            self.close()
            raise ServerDied(f"the E2B sandbox is gone: {fault}") from fault
        except BaseException:
            self.close()
            raise
        return self._checked(said, key)

    def close(self) -> None:
        """Kill it, as far as the server can be reached; else it ends after `life_s`."""
        if self._closed:
            return
        self._closed = True
        try:
            self._box.kill()
        except _FAULTS:
            return

    def _checked(self, said: bytes, key: bytes) -> tuple[dict[str, Any], bytes]:
        mark, reply = said[:32], said[32:]
        if len(reply) < 8 or not hmac.compare_digest(mark, hmac.digest(key, reply, hashlib.sha256)):
            self.close()
            raise ServerDied("the answer from the E2B sandbox is not signed")
        head, body = struct.unpack(">II", reply[:8])
        header: dict[str, Any] = json.loads(reply[8 : 8 + head])
        header["out_of_memory"] = False
        return header, reply[8 + head : 8 + head + body]


def _created(config: Config, options: Mapping[str, Any]) -> e2b.Sandbox:
    """A remote sandbox; a server without room is asked again, ever more rarely, for `room_s`. Raises SandboxError."""
    until, pause_s = time.monotonic() + config.room_s, _FIRST_PAUSE_S
    while True:
        try:
            return e2b.Sandbox.create(config.template, timeout=config.life_s, **options)
        except (e2b.RateLimitException, ServiceBusyException) as fault:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise SandboxError(f"the E2B server had no room for {config.room_s:g} s: {fault}") from fault
        except (e2b.AuthenticationException, *_FAULTS) as fault:
            raise SandboxError(f"the E2B server gives no sandbox: {fault}") from fault
        time.sleep(min(left_s, pause_s * random.uniform(0.5, 1.0)))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class E2bSandbox:
    """The `Sandbox` protocol over an E2B server."""

    def __init__(self, config: Config) -> None:
        key = os.environ.get(config.api_key_env, "")
        if not key:
            raise UserError(
                f"[sandbox] api_key_env must name a variable that holds the key: got {config.api_key_env!r}, which is "
                "not set - set it to the key of the server"
            )
        self._config = config
        self._pool = Pool(partial(Remote, config, key), config.servers)
        self._finish = weakref.finalize(self, _clear, self._pool, os.getpid())

    def workspace(self, files: Mapping[str, str]) -> MemoryWorkspace:
        """Raises PolicyError when a path is refused."""
        disk_mb = self._config.disk_mb
        return MemoryWorkspace(self._pool, table(files, disk_mb), disk_mb, "/workspace")

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        """Run the `test_*` functions of `files[test_path]`. Raises SandboxError, PolicyError."""
        limit_s = min(timeout_s, self._config.timeout_s)
        return run_test(self._pool, files, test_path, limit_s, self._config.disk_mb)

    def close(self) -> None:
        """Kill the remote sandboxes. Idempotent."""
        self._finish()


def _clear(pool: Pool, owner: int) -> None:
    if owner == os.getpid():
        pool.close()


def build(config: Config) -> E2bSandbox:
    """A `Sandbox` over the server. Raises UserError where no key is set; the server is asked at the first request."""
    return E2bSandbox(config)
