"""Tasks of the world `instructions` as a stream: seconds, memory and refusals as their number grows.

    python bench/instructions_stream.py [--tasks 100000] [--split train] [--most 2]

Seconds are those of the CPU (one core), memory is the process's resident set. Flat memory and linear time show as the
same figures in every row.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

from noria.envs.instructions import Config, admission, build

ROWS = 10
REASONS = ("conflict", "redundant", "vacuous", "unbuilt")


def rows(tasks: int, split: Any, most: int, seed: int) -> list[dict[str, Any]]:
    """One row per tenth of the tasks."""
    world = build(Config(constraints=(1, most)), None)
    tally, found = admission.Tally(), []
    drawn = world.stream(split, seed, tally)
    start = time.process_time()
    for row in range(1, ROWS + 1):
        for _ in range(tasks // ROWS):
            next(drawn)
        spent = time.process_time() - start
        found.append({
            "tasks": row * (tasks // ROWS), "cpu_s": round(spent, 1), "tasks_per_s": round(tally.admitted / spent),
            "rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            **{reason: round(tally.share(reason), 4) for reason in REASONS},
            "seen": round(tally.refused["seen"] / tally.drawn, 4),
        })  # fmt: skip
        print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--split", default="train", choices=admission.SPLITS)
    parser.add_argument("--most", type=int, default=2, help="most constraints of a task")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows(args.tasks, args.split, args.most, args.seed)


if __name__ == "__main__":
    main()
