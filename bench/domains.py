"""What the factory of domains yields: domains per second, tools, drop reasons, goals with several ways.

python bench/domains.py [--domains 200] [--seed 0] [--out FOLDER] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from noria.envs.tooluse import Config, build, make
from noria.sandboxes import bwrap


def measure(domains: int, seed: int, out: Path, tasks: int) -> dict[str, Any]:
    """Make domains in `out` and draw tasks without a folder; seconds are of wall clock and of this process."""
    sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=1))
    started, worked = time.perf_counter(), time.process_time()
    try:
        report = make(out, domains, seed, sandbox)
    finally:
        sandbox.close()
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    started, worked = time.perf_counter(), time.process_time()
    build(Config(domain_seed=seed), None).tasks("train", tasks, seed)
    drawn, drawn_cpu = time.perf_counter() - started, time.process_time() - worked
    return report | {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "domains_per_cpu_second": round(report["domains"] / cpu, 2),
        "share_distinct_signatures": round(report["distinct_signatures"] / report["tools"], 4),
        "share_several_paths": round(report["goals_with_several_paths"] / report["goals"], 3),
        "ms_per_task_on_the_fly": round(1000 * drawn / tasks, 1),
        "cpu_ms_per_task_on_the_fly": round(1000 * drawn_cpu / tasks, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=128, help="tasks drawn from domains made as needed")
    parser.add_argument("--out", type=Path, default=None, help="new folder; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options.domains, options.seed, options.out or Path(folder) / "domains", options.tasks)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for name, value in rows.items():
        print(f"{name.replace('_', ' '):34}{value}")


if __name__ == "__main__":
    main()
