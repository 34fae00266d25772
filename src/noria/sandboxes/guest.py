"""Programs of somebody else's, each run once over files in a fresh sandbox, with a way out to one address alone.

Isolated and limited as in `bwrap`. Inside, a guest finds the system, this installation's Python (less the packages
that know answers) and what it is shown, read-only; its files in a workspace of fixed size; and one port of its own
loopback that leads to one of the host's.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from noria.core.errors import SandboxError, UserError
from noria.core.files import Entry
from noria.sandboxes import _cgroup, _jail, bwrap
from noria.sandboxes._client import SERVER, Server, ServerDied, pack, unpack
from noria.sandboxes._endpoint import Relay

#: Where the way out begins inside, and how often it is looked whether a guest is given up, in s.
DOOR, TICK_S = f"{_jail.INSIDE}/endpoint", 0.05
#: Places that a sandbox has for itself.
_OWN = ("/dev", "/proc", "/sys", _jail.ROOT, _jail.INSIDE)
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one guest may use; `output_kb` of its output are kept, head and tail."""

    memory_mb: int = 2048
    pids: int = 256
    disk_mb: int = 256
    output_kb: int = 16


@dataclass(frozen=True, slots=True)
class Left:
    """How a guest ended, and what it left: `files` of the workspace, None where they are too many or too large."""

    code: int
    timed_out: bool
    log: str
    out_of_memory: bool
    files: Mapping[str, Entry] | None


class Guests:
    """Runs guests; may be called from several threads at once.

    `shown` are files and folders of the host that all of them see at their own places, read-only.

    Raises:
        UserError: the host does not allow sandboxes, or something that is to be shown cannot be.
    """

    def __init__(self, limits: Limits, shown: Sequence[str]) -> None:
        self.limits, label = limits, bwrap._label()
        self._shown = places(shown)
        plan = _jail.plan(f"{label}{os.getpid()}-", ())
        self._above = _cgroup.usable(f"{label}{os.getpid()}-g{next(_numbers)}")
        bwrap._sweep(label, self._above)
        if plan.uid is not None:
            _check_readable(self._shown)
            plan = replace(plan, staged={**plan.staged, **{path: f"g{n}" for n, path in enumerate(self._shown)}})
        hidden = dict.fromkeys((*plan.hidden, *_jail.knowing(self._shown)))
        self._plan = plan = replace(plan, hidden=tuple(hidden))
        self._finish = weakref.finalize(self, _clear, plan.stage, os.getpid())
        try:
            self._server(Path(os.devnull)).close()
        except SandboxError as fault:
            self.close()
            raise _jail.refused(str(fault)) from fault

    def run(
        self,
        files: Mapping[str, Entry],
        argv: Sequence[str],
        environment: Mapping[str, str],
        folders: Sequence[str],
        address: tuple[str, int],
        door: Path,
        timeout_s: float,
        given_up: threading.Event,
        around: Sequence[tuple[str, str]] = (),
    ) -> Left:
        """Run a command over files, in the first of `folders` (absolute, made first), until it ends or is `given_up`.

        `door` is a path for a socket, not there yet; through it, `address` is reached at the same port of the
        loopback inside. `around` are (place inside, folder of the host) that this guest alone sees, read-only.
        Nothing of the guest runs any more when this returns.

        Raises:
            SandboxError: the sandbox failed.
        """
        real = _places_of(around)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(door))
                door.chmod(0o666)  # a private user knocks
                listener.listen(64)
                relay = Relay(listener, lambda: socket.create_connection(address))
                threading.Thread(target=relay.run, name="noria-door", daemon=True).start()
                try:
                    server = self._server(door, real)
                    return self._run(server, files, argv, environment, folders, address[1], timeout_s, given_up)
                finally:
                    relay.close()
        except OSError as fault:
            raise SandboxError(f"the sandbox of a harness failed: {fault}") from fault

    def _run(
        self, server: _Stoppable, files: Mapping[str, Entry], argv: Sequence[str], environment: Mapping[str, str],
        folders: Sequence[str], port: int, timeout_s: float, given_up: threading.Event,
    ) -> Left:  # fmt: skip
        over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(server.stop, over, given_up), name="noria-guest", daemon=True)
        watcher.start()
        python = os.path.realpath(sys.executable)
        words = [python, "-I", "-S", "-B", f"{_jail.INSIDE}/_endpoint.py", DOOR, str(port), *folders, "--"]
        words += ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in environment.items()), *argv]
        entries, payload = pack(dict(files))
        header = {"op": "run", "entries": entries, "argv": words, "timeout_s": timeout_s}
        try:
            reply, body = server.ask(header, payload, timeout_s)
        except ServerDied:
            if given_up.is_set():
                return Left(-9, True, "", False, None)
            raise
        finally:
            over.set()
            watcher.join()
            server.close()
        if "fault" in reply:
            raise SandboxError(f"the sandbox failed: {reply['fault']}")
        kept: dict[str, Entry] | None = None
        if reply["kept"]:
            kept = {path: entry for path, entry in files.items() if path not in set(reply["removed"])}
            kept |= unpack(reply["entries"], body)
        return Left(reply["code"], reply["timed_out"], reply["stdout"], reply["out_of_memory"], kept)

    def close(self) -> None:
        """Remove what was made outside. Idempotent."""
        self._finish()

    def _server(self, door: Path, real: Sequence[tuple[str, str]] = ()) -> _Stoppable:
        limits, plan = self.limits, self._plan
        if plan.uid is not None:
            more = {folder: f"a{number}" for number, (_, folder) in enumerate(real) if folder not in plan.staged}
            plan = replace(plan, staged={**plan.staged, **more, str(door): "door"})
        cage = None
        if self._above:
            name = f"{bwrap._label()}{os.getpid()}-g{next(_numbers)}"
            try:
                cage = _cgroup.make(self._above, name, limits.memory_mb, limits.pids + 4)
            except OSError as fault:
                raise SandboxError(f"the sandbox's control group could not be made: {fault}") from fault
        settings = {
            "root": _jail.ROOT, "scratch": [_jail.ROOT], "memory_mb": limits.memory_mb, "pids": limits.pids + 2,
            "disk_mb": limits.disk_mb, "output_kb": limits.output_kb, "limit_address_space": cage is None,
        }  # fmt: skip
        python = os.path.realpath(sys.executable)
        command = [python, "-s", "-S", "-B", "-P", f"{_jail.INSIDE}/_forkserver.py", json.dumps(settings)]
        scripts = (*SERVER, "_endpoint.py")
        shown = [*((path, path) for path in self._shown), *((folder, place) for place, folder in real)]
        shown.append((str(door), DOOR))
        procs = cage.procs if cage is not None else []

        def start() -> subprocess.Popen[bytes]:
            return _jail.start(plan, procs, limits.disk_mb, command, scripts, shown=shown)

        return _Stoppable(start, cage)


class _Stoppable(Server):
    """A server that another thread may stop: who asks it is then told that it died."""

    def stop(self) -> None:
        """Kill it and all that runs inside; `close` is still to be called."""
        self._process.kill()


def places(shown: Sequence[str]) -> tuple[str, ...]:
    """What must be shown, each once and in real form, with this installation's packages; the system is there anyway.

    Raises:
        UserError: something is not there, or lies where a sandbox has its own.
    """
    real: list[str] = []
    for path in (sys.prefix, *shown):
        place = os.path.realpath(path)
        if not os.path.isabs(path) or not os.path.exists(place) or place == "/":
            raise UserError(f"readonly must name absolute paths that are there: got {path!r} - mend it")
        if any(place == own or place.startswith(own + "/") for own in _OWN) or place == "/tmp":
            raise UserError(f"readonly must not name {path!r}: the sandbox has its own - move it elsewhere")
        real.append(place)
    base = os.path.realpath(sys.base_prefix)
    known = [*_jail.SYSTEM, "/usr", base]
    found: list[str] = []
    for place in sorted(dict.fromkeys(real)):  # what lies in another comes behind it
        if not any(place == above or place.startswith(above + "/") for above in (*known, *found)):
            found.append(place)
    return tuple(found)


def _places_of(around: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same with real folders. Raises SandboxError: one is not there, or its place is the sandbox's own."""
    real = [(place, os.path.realpath(folder)) for place, folder in around]
    for place, folder in real:
        if any(place == own or place.startswith(own + "/") for own in _OWN) or not os.path.isdir(folder):
            raise SandboxError(f"{folder} cannot be shown at {place}")
    return real


def _check_readable(shown: Sequence[str]) -> None:
    for path in shown:
        need = 0o5 if os.path.isdir(path) else 0o4
        if os.stat(path).st_mode & need != need:
            raise UserError(
                f"readonly shows {path} to a user without rights: expected it readable for all - chmod -R o+rX {path}"
            )


def _watch(stop: Callable[[], None], over: threading.Event, given_up: threading.Event) -> None:
    while not over.wait(TICK_S):
        if given_up.is_set():
            stop()
            return


def _clear(stage: str, owner: int) -> None:
    if stage and owner == os.getpid() and os.path.isdir(stage):
        os.rmdir(stage)
