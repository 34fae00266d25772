"""Containers of Docker, for those who have it: one warm fork server in each of `servers` containers.

Containers carry the labels `noria.owner`, the number of the process that started them, and `noria.space`, where that
number is valid; those whose owner is gone are removed when the next sandbox starts there.

Never run against a real daemon: the tests run it with a stand-in that speaks the same command line.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import weakref
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import SandboxError, UserError
from noria.core.protocols import TestReport
from noria.sandboxes._client import SCRIPTS, SERVER, Pool, Server
from noria.sandboxes._workspace import MemoryWorkspace, run_test, table

_ROOT, _INSIDE = "/workspace", "/opt/noria"
_USER = "1000:1000"
_KILL_S = 30.0
OWNER, SPACE = "noria.owner", "noria.space"


class Config(Checked):
    """Limits hold for each container; `image` must have Python 3.10 or later as `python3`. No network, no rights."""

    type: Literal["docker"] = "docker"
    image: str = Field(default="python:3.11-slim", min_length=1, description="image with python3; fetched beforehand")
    runtime: str = Field(default="", description="another runtime of the daemon, as runsc for gVisor")
    memory_mb: int = Field(default=512, ge=64, description="memory of a container, files included")
    cpus: float = Field(default=1.0, gt=0, description="processors of a container")
    pids: int = Field(default=64, ge=4, description="processes of a container")
    disk_mb: int = Field(default=64, ge=1, description="size of /workspace, and of /tmp")
    output_kb: int = Field(default=64, ge=1, description="of each stream of a command, head and tail")
    timeout_s: float = Field(default=5.0, gt=0, description="of one test run at most")
    servers: int = Field(default=2, ge=1, description="containers, and requests at the same time")


class Container(Server):
    """A server whose container is ended by its name, as well as by the end of its input."""

    def __init__(self, config: Config, program: str) -> None:
        """Raises SandboxError when the container does not come up, with what `docker` printed."""
        self._program, self._name = program, f"noria-{os.getpid()}-{secrets.token_hex(6)}"
        argv = [program, *run_words(config, self._name)]

        def start() -> subprocess.Popen[bytes]:
            pipe = subprocess.PIPE
            return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)

        super().__init__(start)

    def close(self) -> None:
        """Kill the container and the client that is attached to it."""
        try:
            subprocess.run([self._program, "kill", self._name], capture_output=True, timeout=_KILL_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            pass  # the server inside ends when its input does, and the container with it
        super().close()


class DockerSandbox:
    """The `Sandbox` protocol over containers."""

    def __init__(self, config: Config) -> None:
        program = shutil.which("docker")
        if program is None:
            raise UserError(
                "[sandbox] type must be usable: got 'docker' without the program docker on PATH - install Docker, or "
                'use type = "bwrap", which needs none'
            )
        self._config = config
        sweep(program)
        self._pool = Pool(partial(Container, config, program), config.servers)
        self._finish = weakref.finalize(self, _clear, self._pool, os.getpid())
        try:
            self._pool.warm()
        except SandboxError as fault:
            self.close()
            raise UserError(
                f"[sandbox] type must be usable: got 'docker', but no container starts: {fault} - start the daemon, "
                f"and fetch the image with `docker pull {config.image}`"
            ) from fault

    def workspace(self, files: Mapping[str, str]) -> MemoryWorkspace:
        """A private folder with these files, seen as /workspace. Raises PolicyError if a path is refused."""
        disk_mb = self._config.disk_mb
        return MemoryWorkspace(self._pool, table(files, disk_mb), disk_mb, _ROOT)

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        """Run the `test_*` functions of `files[test_path]`. Raises SandboxError, PolicyError."""
        limit_s = min(timeout_s, self._config.timeout_s)
        return run_test(self._pool, files, test_path, limit_s, self._config.disk_mb)

    def close(self) -> None:
        """Kill the containers. Idempotent."""
        self._finish()


def run_words(config: Config, name: str) -> list[str]:
    """Arguments of `docker` that start one container with a fork server as its process 1."""
    scratch = [_ROOT, "/tmp", "/dev/shm"]
    settings = {
        "root": _ROOT, "scratch": scratch, "memory_mb": config.memory_mb, "pids": 0, "disk_mb": config.disk_mb,
        "output_kb": config.output_kb, "limit_address_space": False,
    }  # fmt: skip
    size = f"rw,exec,nosuid,nodev,mode=1777,size={config.disk_mb}m"
    words = ["run", "--rm", "--interactive", "--name", name, "--pull", "never", "--network", "none", "--read-only"]
    words += ["--label", f"{OWNER}={os.getpid()}", "--label", f"{SPACE}={space()}"]
    words += ["--user", _USER, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--hostname", "sandbox"]
    words += ["--memory", f"{config.memory_mb}m", "--memory-swap", f"{config.memory_mb}m"]
    words += ["--cpus", f"{config.cpus:g}", "--pids-limit", str(config.pids + 1), "--shm-size", f"{config.disk_mb}m"]
    words += ["--runtime", config.runtime] if config.runtime else []
    words += ["--tmpfs", f"{_ROOT}:{size}", "--tmpfs", f"/tmp:{size}", "--workdir", _ROOT]
    words += ["--env", "HOME=/tmp", "--env", "PYTHONHASHSEED=0", "--entrypoint", "python3"]
    for script in SERVER:
        words += ["--volume", f"{Path(SCRIPTS, script)}:{_INSIDE}/{script}:ro"]
    return [*words, config.image, "-s", "-S", "-B", "-P", f"{_INSIDE}/_forkserver.py", json.dumps(settings)]


def space() -> str:
    """Where the numbers of this process's neighbours are valid: a boot of a machine and a namespace of processes.

    Machines may share a daemon, and each sees only the processes of its own.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"


def sweep(program: str) -> None:
    """Remove the containers of processes of this space that are gone; where that fails, the next start says why."""
    form = f'{{{{.ID}}}} {{{{.Label "{OWNER}"}}}}'
    for line in _said(program, "ps", "--all", "--no-trunc", "--filter", f"label={SPACE}={space()}", "--format", form):
        id_, _, owner = line.partition(" ")
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            _said(program, "rm", "--force", id_)


def _said(program: str, *words: str) -> list[str]:
    try:
        done = subprocess.run([program, *words], capture_output=True, timeout=_KILL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []


def _clear(pool: Pool, owner: int) -> None:
    if owner == os.getpid():
        pool.close()


def build(config: Config) -> DockerSandbox:
    """A `Sandbox` with one warm container. Raises UserError, with the ways out, where none starts."""
    return DockerSandbox(config)
