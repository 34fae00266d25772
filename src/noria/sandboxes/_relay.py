"""Runs one request of a sandbox elsewhere: hands it to a fork server, and signs what that says. Standard library.

Argument: a folder that holds the scripts and the file `request` (settings as a JSON line, then frames); the answer is
written to `reply`, preceded by its HMAC-SHA256 under the key of the environment variable NORIA_KEY. Code under test may
kill this process or write to the folder, but it does not get at the key.
"""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import json
import os
import subprocess
import sys

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    key = bytes.fromhex(os.environ.pop("NORIA_KEY"))
    folder = sys.argv[1]
    path = os.path.join(folder, "request")
    with open(path, "rb") as file:
        settings, frames = json.loads(file.readline()), file.read()
    os.unlink(path)
    os.makedirs(settings["root"], exist_ok=True)
    argv = [sys.executable, "-s", "-S", "-B", "-P", os.path.join(folder, "_forkserver.py"), json.dumps(settings)]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": settings["root"], "PYTHONHASHSEED": "0"}
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert server.stdin is not None and server.stdout is not None
    greeting = server.stdout.read(8)
    server.stdout.read(int.from_bytes(greeting[:4], "big"))
    server.stdin.write(frames)
    server.stdin.flush()
    head = server.stdout.read(8)
    size = int.from_bytes(head[:4], "big") + int.from_bytes(head[4:], "big")
    reply = head + server.stdout.read(size)
    server.kill()
    server.wait()
    with open(os.path.join(folder, "reply"), "wb") as file:
        file.write(hmac.digest(key, reply, hashlib.sha256) + reply)


if __name__ == "__main__":
    main()
