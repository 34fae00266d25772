"""A foreign harness as a process: started in a folder, limited in time, killed with everything that it started.

With bubblewrap it has a process table of its own, so nothing that it started outlives it, and the host's files are
read-only to it but for its own folder. The network is the host's, since the model is served on the loopback.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from noria.core.errors import SandboxError

#: How often a process is looked at, in s, and how long a killed one may take to be gone.
TICK_S, GONE_S = 0.05, 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its code (negative = a signal), whether its time was up, the end of what it printed."""

    code: int
    timed_out: bool
    log: str


@dataclass(frozen=True, slots=True)
class Cell:
    """What a process may see: `own` is its folder, `hidden` are folders that it finds empty.

    `program` is bubblewrap; "" = nothing is isolated, and what leaves the process group is not killed.
    """

    program: str
    own: Path
    hidden: Sequence[Path]

    def around(self, argv: Sequence[str], folder: Path) -> list[str]:
        """The command that runs `argv` in `folder`."""
        if not self.program:
            return list(argv)
        wrapped = [self.program, "--die-with-parent", "--unshare-user-try", "--unshare-pid", "--unshare-ipc"]
        wrapped += ["--new-session", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        for path in self.hidden:
            wrapped += ["--tmpfs", str(path)]
        return [*wrapped, "--bind", str(self.own), str(self.own), "--chdir", str(folder), "--", *argv]


def run(
    cell: Cell,
    argv: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    log_bytes: int,
    given_up: threading.Event,
) -> Ended:
    """Run a command to its end, to its time limit, or until it is `given_up`; nothing of it is left then.

    Raises:
        SandboxError: it did not start, or could not be killed.
    """
    try:
        process = subprocess.Popen(
            cell.around(argv, folder), cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except OSError as fault:
        raise SandboxError(f"the harness did not start: {fault}") from fault
    tail = _Tail(process, log_bytes)
    deadline = time.monotonic() + timeout_s
    try:
        while process.poll() is None and time.monotonic() < deadline and not given_up.is_set():
            time.sleep(TICK_S)
        timed_out = process.poll() is None
    finally:
        _kill(process)
    return Ended(process.returncode, timed_out, tail.text())


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and its group, whatever has become of its leader."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # the group is gone
    process.kill()
    try:
        process.wait(GONE_S)
    except subprocess.TimeoutExpired as fault:
        raise SandboxError("the harness could not be killed") from fault


class _Tail:
    """Reads what a process prints and keeps the end of it, so that nobody waits for a full pipe."""

    def __init__(self, process: subprocess.Popen[bytes], most: int) -> None:
        assert process.stdout is not None
        self._pipe, self._most, self._kept = process.stdout, most, b""
        self._thread = threading.Thread(target=self._read, name="harness-log", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while part := os.read(self._pipe.fileno(), 65536):
                self._kept = (self._kept + part)[-self._most :]

    def text(self) -> str:
        """What was kept; a process that left the group may hold the pipe, and is not waited for."""
        self._thread.join(GONE_S / 10)
        return self._kept.decode("utf-8", "replace")


def remove(folder: Path) -> None:
    """Remove a folder of a process that is dead, with folders in it that were closed against their owner."""
    for place, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with suppress(FileNotFoundError):  # somebody else removes it too
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def sweep(place: Path, prefix: str) -> None:
    """Remove our folders, named `prefix`<pid>-…, of processes that were killed before they could."""
    for folder in place.glob(f"{prefix}*"):
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        with suppress(FileNotFoundError):
            owner = folder.lstat().st_uid
            if pid.isdigit() and not Path(f"/proc/{pid}").exists() and owner == os.geteuid():
                remove(folder)
