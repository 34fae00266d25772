"""The default sandbox: bubblewrap with a warm fork server as process 1 inside.

Isolated: files (read-only system, private in-memory workspace of limited size), processes, network, IPC,
users, host name; limited: memory, processes, disk, output, time. Shared with the host: the kernel.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import SandboxError, UserError
from noria.core.protocols import Shape, TestReport
from noria.sandboxes import _cgroup, _jail
from noria.sandboxes._base import Base
from noria.sandboxes._client import Pool, Server, pack
from noria.sandboxes._layered import LayeredWorkspace
from noria.sandboxes._layers import EVEN
from noria.sandboxes._workspace import MemoryWorkspace, run_test, table

_numbers = itertools.count()
#: Seconds that laying the files of layers may take.
_LAYERS_S = 120.0


class Config(Checked):
    """Limits hold for each of `servers` warm servers, which is how many requests run at the same time.

    `memory_mb` covers all processes of a request and their files where control groups can be made, else each
    process. No test run gets more than `timeout_s`. `disk_mb` is the size of /workspace, of /tmp and of
    /dev/shm. `readonly` names further host paths to show inside, at the same place.
    """

    type: Literal["bwrap"]
    memory_mb: int = Field(default=512, ge=64)
    pids: int = Field(default=64, ge=4)
    disk_mb: int = Field(default=64, ge=1)
    output_kb: int = Field(default=64, ge=1)
    timeout_s: float = Field(default=5.0, gt=0)
    servers: int = Field(default=2, ge=1)
    readonly: tuple[str, ...] = ()


class BwrapSandbox:
    """The `Sandbox` protocol over bubblewrap. Raises UserError where the host does not allow it."""

    def __init__(self, config: Config, shape: Shape | None = None) -> None:
        self._config = config
        shape = shape or Shape()
        links = shape.links
        label = _label()
        folders = [folder for place, folder in shape.layers if place == _jail.ROOT]
        seen = [(place, folder) for place, folder in shape.layers if place != _jail.ROOT]
        self._base = Base(folders) if folders else None
        above = _cgroup.usable(f"{label}{os.getpid()}-{next(_numbers)}")
        _sweep(label, above)
        plan = _jail.plan(f"{label}{os.getpid()}-", config.readonly, [path for path, _ in links], seen, shape.hidden)
        self._pool = Pool(partial(_server, config, plan, above, links, self._base, shape.warm), config.servers)
        self._finish = weakref.finalize(self, _clear, self._pool, plan.stage, os.getpid())
        try:
            self._pool.warm()
        except SandboxError as fault:
            self.close()
            if self._base is not None:  # others of this kind started: it is these layers that do not
                raise
            raise _jail.refused(str(fault)) from fault

    def workspace(self, files: Mapping[str, str]) -> MemoryWorkspace:
        """A private folder with these files, seen as /workspace. Raises PolicyError if a path is refused."""
        disk_mb = self._config.disk_mb
        entries = table(files, disk_mb)
        if self._base is None:
            return MemoryWorkspace(self._pool, entries, disk_mb, _jail.ROOT)
        entries = {path: replace(entry, mode=entry.mode | EVEN) for path, entry in entries.items()}
        return LayeredWorkspace(self._pool, entries, disk_mb, _jail.ROOT, self._base)

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        """Run the `test_*` functions of `files[test_path]`. Raises SandboxError, PolicyError."""
        limit_s = min(timeout_s, self._config.timeout_s)
        return run_test(self._pool, files, test_path, limit_s, self._config.disk_mb)

    def shaped(self, shape: Shape) -> BwrapSandbox:
        """A further sandbox of this kind, to be closed by the caller.

        Raises:
            UserError: a path is taken, or a layer is no folder.
            SandboxError: the layers do not fit.
        """
        lower = {
            "memory_mb": max(64, min(shape.memory_mb or self._config.memory_mb, self._config.memory_mb)),
            "disk_mb": min(shape.disk_mb or self._config.disk_mb, self._config.disk_mb),
        }
        return BwrapSandbox(self._config.model_copy(update=lower), shape)

    def close(self) -> None:
        """Kill everything that runs inside and remove what was made outside. Idempotent."""
        self._finish()


def _label() -> str:
    """Start of the names of our folders and groups; tells apart containers that share a folder."""
    return f"noria-{Path('/proc/self/ns/pid').stat().st_ino}-"


def _server(
    config: Config,
    plan: _jail.Plan,
    above: tuple[Path, ...],
    links: tuple[tuple[str, str], ...],
    base: Base | None,
    warm: tuple[str, ...],
) -> Server:
    cage = None
    if above:
        name = f"{_label()}{os.getpid()}-{next(_numbers)}"
        try:
            # bubblewrap's own process outside and the server inside come on top.
            cage = _cgroup.make(above, name, config.memory_mb, config.pids + 2)
        except OSError as fault:
            raise SandboxError(f"the sandbox's control group could not be made: {fault}") from fault
    settings = {
        "root": _jail.ROOT,
        "scratch": [_jail.ROOT, "/tmp", "/dev/shm"],
        "memory_mb": config.memory_mb,
        "pids": config.pids,
        "disk_mb": config.disk_mb,
        "output_kb": config.output_kb,
        "limit_address_space": cage is None,
        "warm": list(warm),
    }
    python = os.path.realpath(sys.executable)
    command = [python, "-s", "-S", "-B", "-P", f"{_jail.INSIDE}/_forkserver.py", json.dumps(settings)]
    start = partial(_jail.start, plan, cage.procs if cage is not None else [], config.disk_mb, command, links=links)
    server = Server(start, cage)
    if base is not None:
        entries, payload = pack(base.entries())
        reply, _ = server.ask({"op": "layers", "entries": entries}, payload, _LAYERS_S)
        if "fault" in reply or reply["dirty"]:
            server.close()
            raise SandboxError(f"the layers do not fit into the sandbox: {reply.get('fault') or 'raise disk_mb'}")
    return server


def _clear(pool: Pool, stage: str, owner: int) -> None:
    pool.close()
    if stage and owner == os.getpid():
        _remove_empty(stage)


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return


def _sweep(label: str, above: tuple[Path, ...]) -> None:
    """Remove what processes that are dead by now have left: control groups and empty folders."""
    _cgroup.sweep(above, label)
    for place in ("/run", "/tmp", "/var/tmp"):
        for folder in Path(place).glob(f"{label}*"):
            pid = folder.name[len(label) :].split("-")[0]
            if pid.isdigit() and not Path(f"/proc/{pid}").exists() and os.access(folder.parent, os.W_OK):
                _remove_empty(str(folder))


def build(config: Config) -> BwrapSandbox:
    """A `Sandbox` with one warm server. Raises UserError, with the ways out, where bubblewrap can't work."""
    return BwrapSandbox(config)


def probe(config: Config) -> str | None:
    """None when the sandbox works here, else the reason why not."""
    try:
        sandbox = build(config)
    except UserError as fault:
        return str(fault)
    try:
        report = sandbox.test({"test_probe.py": "def test_sum():\n    assert 1 + 1 == 2\n"}, "test_probe.py", 5.0)
        return None if report.passed else f"the sandbox's own check failed: {report}"
    except SandboxError as fault:
        return str(fault)
    finally:
        sandbox.close()
