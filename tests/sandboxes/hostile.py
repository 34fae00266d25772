"""What hostile code tries, and helpers that look for leftovers from the outside."""

from __future__ import annotations

import functools
import os
import textwrap
import time
from pathlib import Path

from noria.core.protocols import Sandbox, TestReport
from noria.sandboxes import bwrap


@functools.cache
def bwrap_reason() -> str | None:
    """None where bubblewrap works, else why it doesn't."""
    return bwrap.probe(bwrap.Config(type="bwrap"))


def attack(sandbox: Sandbox, code: str, timeout_s: float = 10.0) -> TestReport:
    """Run `code` as the module that one test imports; the test itself asks nothing of it."""
    files = {
        "solution.py": textwrap.dedent(code),
        "test_solution.py": "import solution\n\n\ndef test_it():\n    pass\n",
    }
    return sandbox.test(files, "test_solution.py", timeout_s)


def outcome(report: TestReport) -> str:
    """The result of the one test."""
    assert report.error == "", report
    assert list(report.results) == ["test_it"]
    return report.results["test_it"]


def healthy(sandbox: Sandbox) -> bool:
    """Whether ordinary work still gives the right answer."""
    files = {
        "solution.py": "def add(a, b):\n    return a + b\n",
        "test_solution.py": "from solution import add\n\n\ndef test_it():\n    assert add(2, 3) == 5\n",
    }
    return sandbox.test(files, "test_solution.py", 10.0) == TestReport(results={"test_it": "pass"})


def processes_with(mark: str) -> list[int]:
    """Host pids whose command line contains `mark`, once those that are being killed are gone."""
    found: list[int] = []
    for _ in range(200):
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark.encode() in words:
                found.append(int(folder.name))
        if not found:
            return []
        time.sleep(0.01)
    return found


def leftovers(label: str) -> list[str]:
    """Control groups and folders outside whose names start with `label`."""
    places = ["/run", "/tmp", "/var/tmp"]
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            places.append(point)
    found: list[str] = []
    for place in places:
        for folder, below, _ in os.walk(place):
            found += [os.path.join(folder, name) for name in below if name.startswith(label)]
            if place in ("/run", "/tmp", "/var/tmp"):
                below.clear()
    return found
