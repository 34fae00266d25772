"""Seconds of every stage of one or several finished runs: median, minimum and maximum.

    python bench/stages.py [runs/quickstart-… …] [--json]

Without a run it takes the newest one under runs/.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    runs = args.runs or sorted(Path("runs").glob("*/round-*/gate/manifest.json"))[-1:]
    if not runs:
        print("skipped: no finished run under runs/ - make demo makes one")
        return
    runs = [path.parents[2] if path.name == "manifest.json" else path for path in runs]
    seconds: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        found = sorted(run.glob("round-*/**/manifest.json"))
        if not found:
            parser.error(f"{run} holds no finished stage")
        for path in found:
            stage = str(path.parent.relative_to(run)).split("/", 1)[1]
            seconds[stage].append(json.loads(path.read_text())["seconds"])
        seconds["whole run"].append(sum(json.loads(p.read_text())["seconds"] for p in found))
    rows = {s: (statistics.median(v), min(v), max(v), len(v)) for s, v in seconds.items()}
    if args.json:
        print(json.dumps({s: dict(zip(("median", "min", "max", "n"), row, strict=True)) for s, row in rows.items()}))
        return
    for stage, (median, low, high, n) in sorted(rows.items(), key=lambda row: -row[1][0]):
        print(f"{stage:28} {median:8.1f} s  ({low:.1f} to {high:.1f}, n = {n})")


if __name__ == "__main__":
    main()
