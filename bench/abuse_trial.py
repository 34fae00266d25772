"""Tries cases in a sandbox and counts from outside what each leaves."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from abuse_arena import DISK_MB, HARMFUL, MEMORY_MB, OUTPUT_KB, PARTLY, PIDS, SECRET, Arena, Case
from abuse_code import CODE_CASES
from abuse_hosts import HOST_CASES
from census import census, marked, settled

from noria.core.protocols import Sandbox
from noria.sandboxes import _cgroup, bwrap, process

CASES: tuple[Case, ...] = (*CODE_CASES, *HOST_CASES)


def contained(case: Case, sandbox: Sandbox, folder: Path, caged: bool, number: int) -> dict[str, Any]:
    """One attack in one sandbox: what got out ("" = nothing), what is left, milliseconds."""
    before, mark = census(), f"{86_600_000 + os.getpid() % 10_000 * 100 + number}"
    started = time.perf_counter()
    out = case.run(Arena(sandbox, mark, folder, caged))
    ms = (time.perf_counter() - started) * 1000
    stays = marked(mark)
    for pid in stays:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    left = {"marked processes": len(stays)} if stays else {}
    return {"out": out, "left": left | settled(before, 5.0).more_than(before), "ms": round(ms, 1)}


def build(kind: str) -> Sandbox:
    """A sandbox with small limits, so that attacks end soon."""
    if kind == "process":
        return process.build(
            process.Config(type="process", memory_mb=512, disk_mb=DISK_MB, output_kb=OUTPUT_KB, timeout_s=10.0)
        )
    limits = {"memory_mb": MEMORY_MB, "pids": PIDS, "disk_mb": DISK_MB, "output_kb": OUTPUT_KB, "timeout_s": 10.0}
    return bwrap.build(bwrap.Config.model_validate({"type": "bwrap", "servers": 2} | limits))


def warm(sandbox: Sandbox) -> None:
    """Let both servers run: those that are started when needed are not left behind."""
    files = {"test_w.py": "import time\ndef test_it():\n    time.sleep(0.1)\n"}
    with ThreadPoolExecutor(2) as threads:
        reports = list(threads.map(lambda _: sandbox.test(files, "test_w.py", 10.0), range(2)))
    assert all(report.passed for report in reports), reports


def measure(kind: str, cases: list[Case]) -> list[dict[str, Any]]:
    """All cases in one sandbox, which is closed at the end: the last row tells what that left."""
    caged = bool(_cgroup.usable(f"noria-abuse-{os.getpid()}"))
    start, rows = census(), []
    with tempfile.TemporaryDirectory(prefix="abuse-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "secret.txt").write_text(SECRET)
        sandbox = build(kind)
        try:
            for number, case in enumerate(cases):
                if kind == "process" and case.name in HARMFUL:
                    rows.append({"name": case.name, "by": case.by, "out": "harmful", "left": {}, "ms": 0.0})
                    continue
                warm(sandbox)
                rows.append({"name": case.name, "by": case.by} | contained(case, sandbox, folder, caged, number))
        finally:
            sandbox.close()
    left = settled(start).more_than(start)
    return [*rows, {"name": "closing the sandbox", "by": "all is removed", "out": "", "left": left, "ms": 0.0}]


def said(out: str) -> str:
    """One word about what got out."""
    return "partly" if out.startswith(PARTLY) else "OUT" if out else "held"
