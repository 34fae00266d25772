"""What the factory of software tasks yields, and an audit of tasks drawn from a dataset.

python bench/swe.py make pypi:toolz pypi:tomlkit --n 200 --out FOLDER [--seed 0] [--workers 2] [--json]
python bench/swe.py audit FOLDER [--tasks 100] [--seed 0] [--repeats 5] [--attacks 3] [--workers 2]
    [--limit-s 0] [--journal FOLDER] [--json]

For each task the audit

- plays the reference once, finds the tree to be the sound one byte for byte, and grades it as ever: a cold run of all
  tests; the other `repeats` - 1 runs of that tree, cold and of all tests, are made once per repository;
- plays an agent that does nothing, and grades it cold by the tests that must fail; runs those `repeats` - 1 times
  more, in forks of a server that has the runner loaded;
- plays `attacks` forgeries of the world, drawn by the seed, graded likewise; where all tests that must fail pass, all
  others are asked too;
- looks for the patch's lines in the statement, and for what tells the fix in the policy's tree.

Each finished task is a line of `audit.jsonl` in the dataset, or in the folder --journal: the same call goes on where
one was stopped or killed. It says on standard error how far it is, begins no task after `limit-s` seconds (0 = no
limit), and ends with code 1 where one of these is not as it should be, or the sandbox failed at a task.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from noria.factory.audit import Asked, audit
from noria.factory.make import Plan, make
from noria.sandboxes import bwrap

#: Seconds between two lines about how far a making is.
TOLD_S = 15.0


def say(text: str, started: float) -> None:
    """How far it is, on standard error."""
    print(f"{time.perf_counter() - started:7.0f} s  {text}", file=sys.stderr, flush=True)


def teller() -> Callable[[int, str], None]:
    """Says from time to time how many tasks there are."""
    started = time.perf_counter()
    last = [started]

    def advance(kept: int, what: str) -> None:
        if time.perf_counter() - last[0] >= TOLD_S:
            last[0] = time.perf_counter()
            say(f"{kept} tasks, at {what}", started)

    return advance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("sources", nargs="+")
    making.add_argument("--n", type=int, default=100)
    making.add_argument("--out", type=Path, required=True)
    auditing = commands.add_parser("audit")
    auditing.add_argument("folder", type=Path)
    auditing.add_argument("--tasks", type=int, default=100)
    auditing.add_argument("--repeats", type=int, default=5)
    auditing.add_argument("--attacks", type=int, default=3)
    auditing.add_argument("--limit-s", type=float, default=0.0)
    auditing.add_argument("--journal", type=Path)
    for command in (making, auditing):
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--workers", type=int, default=2)
        command.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sandbox = bwrap.build(bwrap.Config(type="bwrap", memory_mb=1024, disk_mb=256, pids=256, servers=given.workers))
    try:
        if given.command == "audit":
            asked = Asked(given.folder, given.tasks, given.seed, given.repeats, given.attacks, given.workers,
                          given.limit_s, given.journal)  # fmt: skip
            report = audit(asked, sandbox, partial(say, started=time.perf_counter()))
        else:
            plan = Plan(tuple(given.sources), given.out, given.n, given.seed, workers=given.workers)
            report = make(plan, sandbox, teller())
    finally:
        sandbox.close()
    if given.json:
        print(json.dumps(report, indent=1))
    else:
        for name, value in report.items():
            print(f"{name.replace('_', ' '):20}{json.dumps(value, ensure_ascii=False)}")
    sys.exit(1 if report.get("failed") or report.get("unknown") else 0)


if __name__ == "__main__":
    main()
