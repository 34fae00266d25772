"""A warm server that runs tests and commands in forked children: standard library only, started by path.

Frames in both directions: two big-endian u32 (header bytes, payload bytes), a JSON header, raw payload.
Requests: {"op": "test"|"run"|"layers", "entries": [[path, mode, size, link], ...], ...} with the files' bytes as the
payload, in that order. "layers" gives files that the root holds from then on, below what a request brings; there a mode
of -1 stands for a file of the layers that is removed, and one with the bit `EVEN` for one that is as old as the layers'
files. The server dies when its input is closed, also in the middle of a request.

As process 1 of a pid namespace (bwrap) nothing inside can signal it, it can't be traced, and after each
request it kills every other process; elsewhere it is a subreaper and kills its descendants.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import secrets
import shutil
import signal
import stat
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _child import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, detach, limit, prctl  # type: ignore[import-not-found]
from _layers import CHANGED_NS, EVEN, Layers  # type: ignore[import-not-found]
from _testrun import Tally, reporter, run_tests, warm  # type: ignore[import-not-found]
from _warm import become, preload  # type: ignore[import-not-found]
from _watching import all_others, descendants, drain, watch  # type: ignore[import-not-found]

#: What ordinary code imports: loaded before the first request, so that a forked child finds it loaded.
PRELOADED = (
    "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools",
    "heapq", "itertools", "operator", "random", "re", "statistics", "string", "textwrap", "typing",
)  # fmt: skip
#: Files of a workspace, and signs of their names and of what links say, so that a reply stays within its frame.
MAX_ENTRIES, MAX_NAMES = 20_000, 4 << 20


class Tail:
    """Keeps the first and the last half of a byte limit of what a command printed, and counts the rest."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = 0

    def feed(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        extra = len(self._tail) - self._half
        if extra > 0:
            self._cut += extra
            del self._tail[:extra]

    def text(self) -> str:
        gap = f"\n[… {self._cut} bytes cut …]\n".encode() if self._cut else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode("utf-8", "replace")


class Server:
    """Answers requests one after another. `config` is the JSON object given as the only argument."""

    def __init__(self, config: dict[str, Any], requests: int, replies: int) -> None:
        self._config = config
        self._requests, self._replies = requests, replies
        self._first = os.getpid() == 1
        self._root: str = config["root"]
        self._layers: Any = None

    def serve(self) -> None:
        self._send({"ready": True})
        while True:
            header, payload = self._receive()
            started = time.monotonic()
            try:
                if header["op"] == "layers":
                    self._layers = Layers(self._root, header["entries"], payload)
                else:
                    self._fill(header["entries"], payload)
                reply, body = self._answer(header)
            except OSError as fault:
                reply, body = {"fault": f"{type(fault).__name__}: {fault}"}, b""
            self._slay()
            reply["seconds"] = time.monotonic() - started
            reply["dirty"] = not self._scrub()
            self._send(reply, body)
            if reply["dirty"]:
                return

    def _answer(self, header: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        if header["op"] == "layers":
            return {}, b""
        return self._test(header) if header["op"] == "test" else self._run(header)

    # Frames

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            data = os.read(self._requests, min(size - len(parts), 1 << 20))
            if not data:
                sys.exit(0)
            parts += data
        return bytes(parts)

    def _receive(self) -> tuple[dict[str, Any], bytes]:
        head, body = struct.unpack(">II", self._read(8))
        header: dict[str, Any] = json.loads(self._read(head))
        return header, self._read(body)

    def _send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        text = json.dumps(header).encode()
        for part in (struct.pack(">II", len(text), len(payload)) + text, payload):
            view = memoryview(part)
            while view:
                view = view[os.write(self._replies, view) :]

    # Files

    def _fill(self, entries: list[list[Any]], payload: bytes) -> None:
        """Write the request's files under the root. Nothing else runs at this time."""
        os.makedirs(self._root, exist_ok=True)
        offset = 0
        for path, mode, size, link in entries:
            full = os.path.join(self._root, path)
            if self._layers is not None and os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            elif self._layers is not None and os.path.lexists(full):
                os.unlink(full)
            if mode < 0:  # a file of the layers that the workspace has removed
                continue
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if link is not None:
                os.symlink(link, full)
                continue
            with open(full, "xb") as file:
                file.write(payload[offset : offset + size])
            if mode & 0o7777 != 0o644:
                os.chmod(full, mode & 0o7777)
            if mode & EVEN:
                os.utime(full, ns=(CHANGED_NS, CHANGED_NS))
            offset += size

    def _walk(self) -> dict[str, os.stat_result] | None:
        """Files and links below the root by relative path; None when there are too many to carry."""
        found: dict[str, os.stat_result] = {}
        todo = [""]
        while todo:
            below = todo.pop()
            folder = os.path.join(self._root, below)
            if not os.access(folder, os.R_OK | os.X_OK):
                os.chmod(folder, 0o755)
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = os.path.join(below, entry.name)
                    if len(path) > 2000 or len(found) + len(todo) > MAX_ENTRIES:
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(path)
                    elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                        found[path] = entry.stat(follow_symlinks=False)
        return found

    def _changes(self, before: dict[str, os.stat_result]) -> tuple[dict[str, Any], bytes]:
        """What a command changed: removed paths, entries and bytes of new or changed files."""
        after = self._walk()
        room = int(self._config["disk_mb"]) << 20
        if after is None or sum(item.st_size for item in after.values()) > room or _named(after) > MAX_NAMES:
            return {"kept": False}, b""
        entries: list[list[Any]] = []
        body = bytearray()
        for path, item in after.items():
            old = before.get(path)
            if old is not None and _version(old) == _version(item):
                continue
            full = os.path.join(self._root, path)
            if stat.S_ISLNK(item.st_mode):
                entries.append([path, 0, 0, os.readlink(full)])
                continue
            mode = stat.S_IMODE(item.st_mode)
            if not mode & 0o400:
                os.chmod(full, mode | 0o600)
            with open(full, "rb") as file:
                data = file.read()
            entries.append([path, mode & 0o777, len(data), None])
            body += data
        removed = [path for path in before if path not in after]
        return {"kept": True, "entries": entries, "removed": removed}, bytes(body)

    # Requests

    def _test(self, header: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        timeout_s, key = float(header["timeout_s"]), secrets.token_hex(16)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                detach((writing,))
                limit(self._config, timeout_s, True)
                os.chdir(self._root)
                run_tests(self._root, header["test_path"], reporter(writing, key))
            finally:
                os._exit(0)
        os.close(writing)
        tally = Tally(key)
        status = self._watch(child, {reading: tally.feed}, timeout_s)
        if status is None:
            why = f"timeout after {timeout_s:g} s"
        else:
            code = os.waitstatus_to_exitcode(status)
            why = f"exited early (code {code})" if code >= 0 else f"killed by signal {-code}"
        results, error = tally.verdict(why)
        return {"results": results, "error": error}, b""

    def _run(self, header: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        timeout_s, argv = float(header["timeout_s"]), header["argv"]
        before = self._walk() or {}
        pipes = [os.pipe(), os.pipe()]
        child = os.fork()
        if child == 0:
            try:
                os.dup2(pipes[0][1], 1)
                os.dup2(pipes[1][1], 2)
                detach(())
                limit(self._config, timeout_s, False)
                os.chdir(self._root)
                if header.get("warm"):
                    become(argv, {**self._environment(), **header["env"]})
                os.execvpe(argv[0], argv, self._environment())
            except (OSError, ValueError) as fault:
                os.write(2, f"{argv[0]}: {fault}\n".encode())
            finally:
                os._exit(127)
        kept = int(self._config["output_kb"]) << 10
        tails = [Tail(kept), Tail(kept)]
        for pipe in pipes:
            os.close(pipe[1])
        sinks: dict[int, Callable[[bytes], None]] = {
            pipe[0]: tail.feed for pipe, tail in zip(pipes, tails, strict=True)
        }
        status = self._watch(child, sinks, timeout_s)
        code = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
        changes, body = self._changes(before)
        texts = {"stdout": tails[0].text(), "stderr": tails[1].text()}
        return {"code": code, "timed_out": status is None, **texts, **changes}, body

    def _environment(self) -> dict[str, str]:
        path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
        home = os.environ.get("HOME", self._root)
        return {"PATH": path, "HOME": home, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}

    def _watch(self, child: int, sinks: dict[int, Callable[[bytes], None]], timeout_s: float) -> int | None:
        """Feed what arrives to the sinks until the child ends (its wait status) or time is up (None).

        Raises Starved (an OSError): nothing is known.
        """
        others = all_others if self._first else descendants
        try:
            ended = watch(child, sinks, timeout_s, self._requests, others)
        except EOFError:  # the client is gone
            self._slay()
            os._exit(0)
        except OSError:
            for descriptor in sinks:
                os.close(descriptor)
            raise
        status = os.waitpid(child, 0)[1] if ended else None
        self._slay()
        for descriptor, sink in sinks.items():
            drain(descriptor, sink, 64)
            os.close(descriptor)
        return status

    # Cleaning up

    def _slay(self) -> None:
        """Kill and reap every process that a request left."""
        if self._first:
            while True:
                try:
                    os.kill(-1, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                try:
                    os.waitpid(-1, 0)
                except ChildProcessError:
                    return
        for _ in range(2000):
            for victim in descendants():
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.001)

    def _scrub(self) -> bool:
        """Empty every place that a child can write to. False: something is left, this server must end."""
        try:
            for folder in self._config["scratch"]:
                if folder == self._root and self._layers is not None:
                    self._layers.restore()
                    continue
                for name in os.listdir(folder):
                    full = os.path.join(folder, name)
                    if os.path.isdir(full) and not os.path.islink(full):
                        shutil.rmtree(full)
                    else:
                        os.unlink(full)
            if self._first:
                for kind in ("shm", "sem", "msg"):
                    with open(f"/proc/sysvipc/{kind}") as file:
                        if len(file.readlines()) > 1:
                            return False
        except (OSError, RecursionError):
            return False
        return True


def _named(files: dict[str, os.stat_result]) -> int:
    """Signs of all names and links."""
    return sum(len(path) + (item.st_size if stat.S_ISLNK(item.st_mode) else 0) for path, item in files.items())


def _version(item: os.stat_result) -> tuple[int, ...]:
    """Changes with every write, rename or change of mode: a program can't set a ctime."""
    return item.st_ino, item.st_size, item.st_mode, item.st_ctime_ns


def main() -> None:
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.umask(0o022)
    # Python's own handler would make process 1 listen to code inside; a default action it never hears.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The code under test finds neither this folder nor the runner among its modules.
    del sys.path[0]
    for name in ("_testrun", "_child", "_layers", "_warm", "_watching"):
        del sys.modules[name]
    for name in PRELOADED:
        importlib.import_module(name)
    warm()
    config = json.loads(sys.argv[1])
    if config.get("warm"):
        preload(config["warm"][0], config["warm"][1:])
    gc.collect()
    gc.freeze()  # a collection in a child then touches, and so copies, fewer pages
    if os.getpid() == 1:
        prctl(PR_SET_DUMPABLE, 0)
    else:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    Server(config, requests, replies).serve()


if __name__ == "__main__":
    main()
