"""Runs pytest inside the sandbox and writes one JSON line per event. Standard library and pytest only, started by path.

    python _pytest_runner.py REPORT '{"limit_s": 10, "chosen": null, "trace": null}' [pytest arguments]

Lines: {"id", "status", "seconds", "said"} per test, {"file", "said"} per file that could not be collected,
{"slow": id} where a test took longer than `limit_s` (the run ends there), {"lines": {id: {path: [line, …]}}} where
lines are traced, and {"end": code} at the end; a report without that line is cut short.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from types import CodeType, FrameType
from typing import Any

MAX_SAID = 1500
#: Signal, timer, and how many times the limit it runs.
TIMERS = ((signal.SIGPROF, signal.ITIMER_PROF, 1), (signal.SIGALRM, signal.ITIMER_REAL, 6))


class Report:
    """The plugin: hears what pytest does and writes it down at once."""

    def __init__(self, path: str, limit_s: float, chosen: list[str] | None, tracer: Tracer | None) -> None:
        self._file = open(path, "x", encoding="utf-8", buffering=1)  # noqa: SIM115 - open as long as the process lives
        self._limit_s, self._chosen, self._tracer = limit_s, set(chosen) if chosen is not None else None, tracer
        self._status: dict[str, tuple[str, str]] = {}
        self._began = 0.0
        self._pid = os.getpid()

    def write(self, **line: Any) -> None:
        if os.getpid() == self._pid:
            self._file.write(json.dumps(line) + "\n")

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        if self._chosen is not None:
            kept = [item for item in items if item.nodeid in self._chosen]
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self._chosen])
            items[:] = kept

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.write(file=report.nodeid, said=str(report.longrepr)[-MAX_SAID:])

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._began = time.monotonic()
        self._status[nodeid] = ("pass", "")
        # Processor time counts, so that a busy machine makes no test slow; who waits gets more, but not for ever.
        for number, timer, factor in TIMERS:
            signal.signal(number, lambda number, frame: self._slow(nodeid))
            signal.setitimer(timer, factor * self._limit_s)
        if self._tracer is not None:
            self._tracer.begin(nodeid)

    def _slow(self, nodeid: str) -> None:
        if os.getpid() == self._pid:
            self.write(slow=nodeid)
        os._exit(99)

    def pytest_runtest_logreport(self, report: Any) -> None:
        status, said = self._status.get(report.nodeid, ("pass", ""))
        if hasattr(report, "wasxfail"):
            found = "skip" if report.skipped else "pass"
        elif report.failed:
            found = "fail" if report.when == "call" else "error"
        else:
            found = "skip" if report.skipped else "pass"
        order = ("pass", "skip", "fail", "error")
        if order.index(found) > order.index(status):
            status = found
        if report.failed:
            said = said or _said(report)
        self._status[report.nodeid] = (status, said)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        for _, timer, _ in TIMERS:
            signal.setitimer(timer, 0)
        if self._tracer is not None:
            self._tracer.end()
        status, said = self._status.pop(nodeid, ("error", "not run"))
        self.write(id=nodeid, status=status, seconds=round(time.monotonic() - self._began, 4), said=said)


class Tracer:
    """Which lines of the sources each test runs."""

    def __init__(self, sources: list[str]) -> None:
        self._names = {os.path.realpath(path): path for path in sources}
        self._known: dict[CodeType, str | None] = {}
        self._lines: set[tuple[str, int]] | None = None
        self._test = ""
        self.found: dict[str, dict[str, list[int]]] = {}

    def begin(self, test: str) -> None:
        self._test, self._lines = test, set()
        sys.settrace(self._call)

    def end(self) -> None:
        sys.settrace(None)
        by_path: dict[str, list[int]] = {}
        for path, line in sorted(self._lines or ()):
            by_path.setdefault(path, []).append(line)
        self.found[self._test] = by_path
        self._lines = None

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in self._known:
            self._known[code] = self._names.get(os.path.realpath(code.co_filename))
        path = self._known[code]
        lines = self._lines
        if path is None or lines is None:
            return None
        lines.add((path, frame.f_lineno))

        def local(inner: FrameType, event: str, argument: Any) -> Any:
            lines.add((path, inner.f_lineno))
            return local

        return local


def _said(report: Any) -> str:
    """The message of a failure: pytest's own lines of it, else the end of what it shows."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr)[:MAX_SAID]


def main() -> None:
    path, options = sys.argv[1], json.loads(sys.argv[2])
    import pytest  # here alone: the file is also read where there is none

    tracer = Tracer(options["trace"]) if options["trace"] else None
    report = Report(path, options["limit_s"], options["chosen"], tracer)
    words = ["-q", "-o", "addopts=", "-p", "no:cacheprovider", "--tb=short", "--no-summary", *sys.argv[3:]]
    sys.path[0] = os.getcwd()
    code = int(pytest.main(words, plugins=[report]))
    if tracer is not None:
        report.write(lines=tracer.found)
    report.write(end=code)
    sys.stdout.flush()
    os._exit(0)  # what a test left running does not keep us


if __name__ == "__main__":
    main()
