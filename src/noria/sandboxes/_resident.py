"""Lives in a sandbox as process 1 and does what the host asks: processes with streams, and files. Standard library.

Frames in both directions as those of the fork server: two big-endian u32 (header bytes, payload bytes), a JSON header,
raw payload. Requests carry an `id` and are answered once, with `error` and `said` where they failed. What processes
print and how they end comes unasked. When the input is closed, process 1 ends and with it everything inside.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import select
import shutil
import signal
import stat
import struct
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

CHUNK = 65536
#: What waits to be written to one process at most; more is refused.
MAX_INPUT = 1 << 20
MAX_LISTED = 10_000
_NAMES = {
    errno.ENOENT: "not_found", errno.ENOTDIR: "invalid_argument", errno.EISDIR: "invalid_argument",
    errno.EEXIST: "already_exists", errno.EACCES: "permission_denied", errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied", errno.ENOSPC: "resource_exhausted", errno.EFBIG: "resource_exhausted",
    errno.ENAMETOOLONG: "invalid_argument", errno.ELOOP: "invalid_argument", errno.ENOTEMPTY: "invalid_argument",
    errno.EINVAL: "invalid_argument", errno.ESRCH: "not_found", errno.EXDEV: "invalid_argument",
    errno.ENXIO: "invalid_argument", errno.EAGAIN: "resource_exhausted", errno.ENOMEM: "resource_exhausted",
}  # fmt: skip


class Refused(Exception):
    """A request that cannot be done; `args` are a code and words."""


class Process:
    """A child with its pipes. `waiting` is what it has not read yet; None once its input is to be closed."""

    def __init__(self, pid: int, out: dict[int, str], given: int | None) -> None:
        self.pid, self.out, self.given = pid, out, given
        self.waiting = bytearray()
        self.closing = self.paused = False
        self.code: int | None = None


class Resident:
    """The loop. `settings` is the JSON object given as the only argument."""

    def __init__(self, settings: dict[str, Any], requests: int, replies: int, child: ModuleType) -> None:
        self._settings, self._requests, self._replies, self._child = settings, requests, replies, child
        self._home: str = settings["home"]
        self._processes: dict[int, Process] = {}
        self._poll = select.poll()
        self._operations: dict[str, Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]]] = {
            "start": self._start, "input": self._input, "close": self._close, "signal": self._signal,
            "flow": self._flow, "read": self._read, "write": self._write, "stat": self._stat, "list": self._list,
            "remove": self._remove, "move": self._move, "mkdir": self._mkdir,
        }  # fmt: skip

    def serve(self, woken: int) -> None:
        os.makedirs(os.path.realpath(self._home), exist_ok=True)  # it may be a link that leads nowhere yet
        self._send({"ready": True})
        self._poll.register(self._requests, select.POLLIN)
        self._poll.register(woken, select.POLLIN)
        while True:
            for descriptor, event in self._poll.poll():
                if descriptor == self._requests:
                    self._answer()
                elif descriptor == woken:
                    os.read(woken, 4096)
                    self._reap()
                else:
                    self._move_data(descriptor, event)

    # Frames

    def _take(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            data = os.read(self._requests, min(size - len(parts), 1 << 20))
            if not data:
                os._exit(0)
            parts += data
        return bytes(parts)

    def _send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        text = json.dumps(header).encode()
        for part in (struct.pack(">II", len(text), len(payload)) + text, payload):
            view = memoryview(part)
            while view:
                view = view[os.write(self._replies, view) :]

    def _answer(self) -> None:
        head, body = struct.unpack(">II", self._take(8))
        header, payload = json.loads(self._take(head)), self._take(body)
        try:
            reply, data = self._operations[header["op"]](header, payload)
        except Refused as fault:
            reply, data = {"error": fault.args[0], "said": fault.args[1]}, b""
        except (OSError, RecursionError, MemoryError) as fault:
            code = _NAMES.get(fault.errno or 0, "internal") if isinstance(fault, OSError) else "resource_exhausted"
            reply, data = {"error": code, "said": f"{type(fault).__name__}: {fault}"}, b""
        except (ValueError, TypeError) as fault:
            reply, data = {"error": "invalid_argument", "said": str(fault)}, b""
        if "id" in header:
            self._send({"id": header["id"], **reply}, data)

    # Processes

    def _start(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        argv, cwd = header["argv"], self._at(header["cwd"] or self._home)
        if not os.path.isdir(cwd):
            raise Refused("invalid_argument", f"no such folder: {cwd}")
        out, err = os.pipe(), os.pipe()
        given = os.pipe() if header["stdin"] else None
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(given[0] if given else os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(out[1], 1)
                os.dup2(err[1], 2)
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self._child.detach(())
                self._child.limit(self._settings, self._settings["life_s"], False)
                os.chdir(cwd)
                os.execvpe(argv[0], argv, {**self._settings["env"], **header["env"]})
            except (OSError, ValueError, TypeError) as fault:
                os.write(2, f"{argv[0]}: {fault}\n".encode())
            finally:
                os._exit(127)
        for descriptor in (out[1], err[1], *((given[0],) if given else ())):
            os.close(descriptor)
        for descriptor in (out[0], err[0], *((given[1],) if given else ())):
            os.set_blocking(descriptor, False)
        process = Process(pid, {out[0]: "stdout", err[0]: "stderr"}, given[1] if given else None)
        self._processes[pid] = process
        for descriptor in process.out:
            self._poll.register(descriptor, select.POLLIN)
        return {"pid": pid}, b""

    def _input(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        process = self._process(header)
        if process.given is None or process.closing:
            raise Refused("failed_precondition", f"process {process.pid} has no open input")
        if len(process.waiting) + len(payload) > MAX_INPUT:
            raise Refused("resource_exhausted", f"process {process.pid} does not read its input")
        process.waiting += payload
        self._feed(process)
        return {}, b""

    def _close(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        process = self._process(header)
        process.closing = True
        self._feed(process)
        return {}, b""

    def _signal(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        """To the process and all that it started in its session's group."""
        pid, number = self._process(header).pid, int(header["signal"])
        try:
            os.killpg(pid, number)
        except ProcessLookupError:  # it has not made its group yet
            os.kill(pid, number)
        return {}, b""

    def _flow(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        """Stop or go on reading what a process prints; it waits meanwhile."""
        process = self._processes.get(int(header["pid"]))
        if process is not None and process.paused != header["stop"]:
            process.paused = bool(header["stop"])
            for descriptor in process.out:
                self._poll.register(descriptor, 0 if process.paused else select.POLLIN)
            if not process.paused:
                self._end(process)
        return {}, b""

    def _process(self, header: dict[str, Any]) -> Process:
        process = self._processes.get(int(header["pid"]))
        if process is None or process.code is not None:
            raise Refused("not_found", f"no process {header['pid']}")
        return process

    def _feed(self, process: Process) -> None:
        """Write what waits, as far as it goes."""
        if process.given is None:
            return
        try:
            while process.waiting:
                del process.waiting[: os.write(process.given, process.waiting)]
        except BlockingIOError:
            self._poll.register(process.given, select.POLLOUT)
            return
        except BrokenPipeError:
            process.waiting.clear()
        self._forget(process.given)
        if process.closing:
            os.close(process.given)
            process.given = None

    def _forget(self, descriptor: int) -> None:
        try:
            self._poll.unregister(descriptor)
        except KeyError:
            return

    def _move_data(self, descriptor: int, event: int) -> None:
        for process in self._processes.values():
            if descriptor == process.given:
                self._feed(process)
                return
            if descriptor in process.out:
                if not process.paused:
                    self._pass_on(process, descriptor, 1)
                elif event & (select.POLLHUP | select.POLLERR):
                    self._forget(descriptor)  # it would be told again and again; `_flow` looks there
                return

    def _pass_on(self, process: Process, descriptor: int, times: int) -> None:
        """Send what was printed; at the end of a stream, close it."""
        for _ in range(times):
            try:
                data = os.read(descriptor, CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._forget(descriptor)
                os.close(descriptor)
                del process.out[descriptor]
                return
            self._send({"pid": process.pid, "stream": process.out[descriptor]}, data)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            process = self._processes.get(pid)
            if process is not None:
                process.code = os.waitstatus_to_exitcode(status)
                if not process.paused:
                    self._end(process)

    def _end(self, process: Process) -> None:
        """Tell how a process ended, after what it has printed; what others print to its streams is not heard."""
        if process.code is None:
            return
        for descriptor in list(process.out):
            self._pass_on(process, descriptor, 64)
        for descriptor in [*process.out, *([process.given] if process.given is not None else [])]:
            self._forget(descriptor)
            os.close(descriptor)
        del self._processes[process.pid]
        self._send({"pid": process.pid, "code": process.code})

    # Files

    def _at(self, path: str) -> str:
        if not path or "\0" in path:
            raise Refused("invalid_argument", "path must not be empty or hold NUL")
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return os.path.normpath(os.path.join(self._home, path))

    def _read(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        descriptor = os.open(self._at(header["path"]), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise Refused("invalid_argument", f"{header['path']} is no file")
            most = self._settings["disk_mb"] << 20
            data = file.read(most + 1)
        if len(data) > most:
            raise Refused("resource_exhausted", f"{header['path']} has more than {most} bytes")
        return {}, data

    def _write(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        path = self._at(header["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Refused("invalid_argument", f"{header['path']} is no file")
            file.truncate(0)
            file.write(payload)
        return {"entry": _entry(path)}, b""

    def _stat(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        return {"entry": _entry(self._at(header["path"]))}, b""

    def _list(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        found: list[dict[str, Any]] = []
        todo = [(self._at(header["path"]), max(1, int(header["depth"] or 1)))]
        while todo:
            folder, depth = todo.pop(0)
            for name in sorted(os.listdir(folder)):
                try:
                    entry = _entry(os.path.join(folder, name))
                except FileNotFoundError:
                    continue
                if len(found) >= MAX_LISTED:
                    raise Refused("resource_exhausted", f"{header['path']} has more than {MAX_LISTED} entries")
                found.append(entry)
                if depth > 1 and entry["type"] == "dir":
                    todo.append((os.path.join(folder, name), depth - 1))
        return {"entries": found}, b""

    def _remove(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        path = self._at(header["path"])
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        return {}, b""

    def _move(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        source, target = self._at(header["source"]), self._at(header["target"])
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.rename(source, target)
        except OSError as fault:
            if fault.errno != errno.EXDEV:
                raise
            shutil.move(source, target)
        return {"entry": _entry(target)}, b""

    def _mkdir(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        path = self._at(header["path"])
        os.makedirs(path)
        return {"entry": _entry(path)}, b""


def _entry(path: str) -> dict[str, Any]:
    facts = os.lstat(path)
    kind = "dir" if stat.S_ISDIR(facts.st_mode) else "symlink" if stat.S_ISLNK(facts.st_mode) else "file"
    return {
        "name": os.path.basename(path) or "/", "path": path, "type": kind, "size": facts.st_size,
        "mode": stat.S_IMODE(facts.st_mode), "permissions": stat.filemode(facts.st_mode), "mtime": facts.st_mtime,
        "target": os.readlink(path) if kind == "symlink" else None,
    }  # fmt: skip


def main() -> None:
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.umask(0o022)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    child = importlib.import_module("_child")
    child.prctl(child.PR_SET_DUMPABLE, 0)
    Resident(json.loads(sys.argv[1]), requests, replies, child).serve(woken)


if __name__ == "__main__":
    main()
