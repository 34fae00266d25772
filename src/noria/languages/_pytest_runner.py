"""Runs pytest inside the sandbox and writes one JSON line per event. Standard library and pytest only, started by path.

    python _pytest_runner.py REPORT '{"limit_s": 10, "chosen": null, "without": [], "trace": null}' [pytest arguments]

Lines: {"known": [id, …]} once, {"at": id} where a test begins, {"id", "status", "seconds", "said"} where it ended,
{"file", "said"} per file that could not be collected, {"slow": id} where a test took longer than `limit_s` (the run
ends there), {"lines": {id: {path: [line, …]}}} where lines are traced, and {"end": code} at the end; a report without
that line is cut short.

Where a key lies beside the report, it is taken away before anything else is loaded, and each line begins with its code
over the line's number and text: what another process or a file of tests writes into the report then counts as nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import sys
import time
from types import CodeType, FrameType
from typing import Any

MAX_SAID = 1500
#: Names of the files with the key and with options that are too long for a word, beside the report.
KEY, GIVEN = ".key", "given"
#: Settings of a repository that are taken back: they ask for plugins that are not there.
WITHOUT = ("addopts=", "required_plugins=")
#: Signal, timer, and how many times the limit it runs.
TIMERS = ((signal.SIGPROF, signal.ITIMER_PROF, 1), (signal.SIGALRM, signal.ITIMER_REAL, 6))


class Report:
    """The plugin: hears what pytest does and writes it down at once."""

    def __init__(self, path: str, key: bytes, options: dict[str, Any], tracer: Tracer | None) -> None:
        self._file = open(path, "x", encoding="utf-8", buffering=1)  # noqa: SIM115 - open as long as the process lives
        self._key, self._count = key, 0
        chosen = options["chosen"]
        self._limit_s, self._chosen, self._tracer = options["limit_s"], None if chosen is None else set(chosen), tracer
        self._without = set(options.get("without", ()))
        self._status: dict[str, tuple[str, str]] = {}
        self._began = 0.0
        self._pid = os.getpid()

    def write(self, **line: Any) -> None:
        if os.getpid() == self._pid:
            text = json.dumps(line)
            if self._key:
                told = f"{self._count}:{text}".encode()
                text = f"{hmac.new(self._key, told, hashlib.sha256).hexdigest()} {text}"
                self._count += 1
            self._file.write(text + "\n")

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        if self._chosen is None:
            self.write(known=[item.nodeid for item in items])
        kept = [item for item in items if self._wanted(item.nodeid)]
        if len(kept) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if not self._wanted(item.nodeid)])
            items[:] = kept

    def _wanted(self, nodeid: str) -> bool:
        return nodeid not in self._without and (self._chosen is None or nodeid in self._chosen)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.write(file=report.nodeid, said=str(report.longrepr)[-MAX_SAID:])

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.write(at=nodeid)
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


def taken(place: str) -> bytes:
    """The key, which is no longer there afterwards; b"" where there is none."""
    try:
        with open(place, "rb") as file:
            key = file.read()
    except FileNotFoundError:
        return b""
    os.unlink(place)
    return key


def main() -> None:
    path, text = sys.argv[1:3]
    if text == GIVEN:
        with open(os.path.join(os.path.dirname(path), GIVEN), encoding="utf-8") as file:
            text = file.read()
    options = json.loads(text)
    key = taken(os.path.join(os.path.dirname(path), KEY))
    import pytest  # here alone: the file is also read where there is none

    tracer = Tracer(options["trace"]) if options["trace"] else None
    report = Report(path, key, options, tracer)
    words = ["-q", *(word for each in WITHOUT for word in ("-o", each))]
    words += ["-p", "no:cacheprovider", "--tb=short", "--no-summary"]
    words += ["--continue-on-collection-errors", *sys.argv[3:]]
    sys.path[0] = os.getcwd()
    code = int(pytest.main(words, plugins=[report]))
    if tracer is not None:
        report.write(lines=tracer.found)
    report.write(end=code)
    sys.stdout.flush()
    os._exit(0)  # what a test left running does not keep us


if __name__ == "__main__":
    main()
