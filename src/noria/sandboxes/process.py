"""Runs code as ordinary processes of this user. UNSAFE: nothing is isolated, so it must be asked for by name.

For trusted code only: the project's own tests, and building data from reference solutions.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.protocols import TestReport
from noria.sandboxes._client import SCRIPTS, Pool, Server
from noria.sandboxes._workspace import MemoryWorkspace, run_test, table


class Config(Checked):
    """`memory_mb` limits the address space of each process, `disk_mb` the size of a file and a workspace.

    No test run gets more than `timeout_s`.
    """

    type: Literal["process"]
    memory_mb: int = Field(default=512, ge=64)
    disk_mb: int = Field(default=64, ge=1)
    output_kb: int = Field(default=64, ge=1)
    timeout_s: float = Field(default=5.0, gt=0)
    servers: int = Field(default=2, ge=1)


class ProcessSandbox:
    """The `Sandbox` protocol without a sandbox."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._folder = os.path.realpath(tempfile.mkdtemp(prefix=f"noria-{os.getpid()}-"))
        self._pool = Pool(partial(_server, config, self._folder), config.servers)
        self._finish = weakref.finalize(self, _clear, self._pool, self._folder, os.getpid())

    def workspace(self, files: Mapping[str, str]) -> MemoryWorkspace:
        """Raises PolicyError when a path is refused."""
        disk_mb = self._config.disk_mb
        return MemoryWorkspace(self._pool, table(files, disk_mb), disk_mb, "/workspace")

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        """Run the `test_*` functions of `files[test_path]`. Raises SandboxError, PolicyError."""
        limit_s = min(timeout_s, self._config.timeout_s)
        return run_test(self._pool, files, test_path, limit_s, self._config.disk_mb)

    def close(self) -> None:
        self._finish()


def _server(config: Config, parent: str) -> Server:
    root = tempfile.mkdtemp(dir=parent)
    settings = {
        "root": root,
        "scratch": [root],
        "memory_mb": config.memory_mb,
        "pids": 0,
        "disk_mb": config.disk_mb,
        "output_kb": config.output_kb,
        "limit_address_space": True,
    }
    python = os.path.realpath(sys.executable)
    script = str(SCRIPTS / "_forkserver.py")
    argv = [python, "-s", "-S", "-B", "-P", script, json.dumps(settings)]
    # `python3` inside is this very interpreter, whatever stands before it on the user's path.
    path = f"{os.path.dirname(python)}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = {"PATH": path, "HOME": root, "PYTHONHASHSEED": "0"}

    def start() -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True)

    return Server(start)


def _clear(pool: Pool, folder: str, owner: int) -> None:
    pool.close()
    if owner == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


def build(config: Config) -> ProcessSandbox:
    """A `Sandbox` that isolates nothing."""
    return ProcessSandbox(config)
