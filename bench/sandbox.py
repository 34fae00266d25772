"""What the sandbox costs: median and 95th percentile of its four operations, in milliseconds.

python bench/sandbox.py [--type bwrap|process] [--repeats 50] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from noria.core.protocols import Sandbox
from noria.sandboxes import bwrap, process

FILES = {
    "solution.py": ("def total(items):\n    out = 0\n    for item in items:\n        out += item\n    return out\n"),
    "test_solution.py": (
        "from solution import total\n\n\n"
        "def test_empty():\n    assert total([]) == 0\n\n\n"
        "def test_one():\n    assert total([4]) == 4\n\n\n"
        "def test_many():\n    assert total(range(10)) == 45\n"
    ),
}


def build(kind: str) -> Sandbox:
    """A sandbox with one server and default limits."""
    if kind == "process":
        return process.build(process.Config(type="process", servers=1))
    return bwrap.build(bwrap.Config(type="bwrap", servers=1))


def times_ms(run: Callable[[], object], repeats: int) -> dict[str, float]:
    """Milliseconds of one call: median, 95th percentile, least."""
    run()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        taken.append((time.perf_counter() - started) * 1000)
    taken.sort()
    p95 = taken[min(len(taken) - 1, round(0.95 * (len(taken) - 1)))]
    return {"median": statistics.median(taken), "p95": p95, "min": taken[0]}


def start_ms(kind: str, repeats: int) -> dict[str, float]:
    """Time until a new sandbox has answered its first test; closing it is not counted."""
    made: list[Sandbox] = []

    def start() -> None:
        made.append(build(kind))
        check(made[-1])

    figures = times_ms(start, repeats)
    for sandbox in made:
        sandbox.close()
    return figures


def check(sandbox: Sandbox) -> None:
    """One test run that must pass."""
    report = sandbox.test(FILES, "test_solution.py", 5.0)
    if not report.passed:
        sys.exit(f"the test run did not pass: {report}")


def measure(kind: str, repeats: int) -> dict[str, dict[str, float]]:
    """All operations, and the same work without any sandbox for comparison."""
    python = os.path.realpath(sys.executable)
    rows = {"sandbox start and first test": start_ms(kind, max(5, repeats // 5))}
    sandbox = build(kind)
    files = sandbox.workspace({f"module_{number}.py": "x = 1\n" * 40 for number in range(100)})
    rows["warm test run"] = times_ms(lambda: check(sandbox), repeats)
    rows["workspace fork (100 files)"] = times_ms(files.fork, repeats)
    rows["run /usr/bin/true (100 files)"] = times_ms(lambda: files.run(["/usr/bin/true"], 5.0), repeats)
    empty = sandbox.workspace({})
    rows["run /usr/bin/true (empty)"] = times_ms(lambda: empty.run(["/usr/bin/true"], 5.0), repeats)
    sandbox.close()
    rows["no sandbox: /usr/bin/true"] = times_ms(lambda: subprocess.run(["/usr/bin/true"], check=True), repeats)
    rows["no sandbox: python -c pass"] = times_ms(
        lambda: subprocess.run([python, "-S", "-c", "pass"], check=True), repeats
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--type", choices=("bwrap", "process"), default="bwrap")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.type, options.repeats)
    if options.json:
        print(json.dumps({"type": options.type, "repeats": options.repeats, "milliseconds": rows}, indent=2))
        return
    print(f"{'milliseconds':32}{'median':>9}{'p95':>9}{'min':>9}")
    for name, row in rows.items():
        print(f"{name:32}{row['median']:9.2f}{row['p95']:9.2f}{row['min']:9.2f}")


if __name__ == "__main__":
    main()
