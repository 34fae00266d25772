"""What runs in a child process of `_children`: work that can hang or eat memory, one piece at a time.

A piece of work is a module of this package that has `work(payload) -> answer`, and perhaps `warm()`, which is called
before the first piece and outside its time. Work comes and goes as one line of JSON. It ends the process when it uses
up its processor time (SIGPROF), or its wall clock (SIGALRM).
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from typing import Any

from noria.core.errors import boundary

_PR_SET_PDEATHSIG = 1
#: Events of `sys.audit` that no grading causes: libraries that read expressions have evaluated what they should not.
_REFUSED = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.kill", "os.putenv", "os.remove",
            "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate",
            "shutil.", "subprocess.", "socket.", "pty.", "ftplib.", "smtplib.", "urllib.", "http.client.",
            "webbrowser.", "sys.setprofile", "sys.settrace")  # fmt: skip
_MODULES = frozenset({"_gym", "_math", "_patterns", "_sql"})


def serve(memory_mb: int) -> None:
    """Answer lines of stdin until it closes."""
    # Should the parent be gone: its death ends this process too.
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            return
    limit = memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # pipes are no files
    # What is graded may make a library print; the answers have a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    working = _Working()
    sys.addaudithook(working.refuse)
    for line in sys.stdin:
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, asked["limit_s"])
        signal.setitimer(signal.ITIMER_REAL, asked["wall_s"])
        answers.write(json.dumps(working.answer(asked)) + "\n")
        answers.flush()
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)


class _Working:
    """Whether a piece of work is under way; importing what it needs is not yet work."""

    def __init__(self) -> None:
        self.now = False

    def refuse(self, event: str, _: tuple[Any, ...]) -> None:
        """Stop what no grading does."""
        if self.now and event.startswith(_REFUSED):
            raise PermissionError(f"{event} is no part of grading")

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What is written back."""
        return boundary(lambda: self._worked(asked), _fault)

    def _worked(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["module"] not in _MODULES:
            return {"fault": f"no such work: {asked['module']!r}"}
        module = importlib.import_module(f"noria.graders.{asked['module']}")
        if "payload" not in asked:
            if hasattr(module, "warm"):
                module.warm()
            return {"ready": True}
        self.now = True
        try:
            return {"answer": module.work(asked["payload"])}
        finally:
            self.now = False


def _fault(fault: BaseException) -> dict[str, Any]:
    if isinstance(fault, ModuleNotFoundError):
        return {"missing": fault.name}
    return {"fault": f"{type(fault).__name__}: {str(fault)[:200]}"}


if __name__ == "__main__":
    serve(int(sys.argv[1]))
