"""What a stream of tasks costs as it grows: drawn, near duplicates dropped, pruned by pass rate.

    python bench/taskstream.py [--world instructions] [--most 100000] [--dedup 0.8] [--rollouts 8] [--json]

For 1k, 3k, 10k, 30k and 100k tasks kept, each size in a process of its own: processor seconds and peak memory of
making (`noria tasks make`) and of pruning (`noria tasks prune`, by the world's scripted habits). Linear time shows as
the same milliseconds per task in every row, flat memory as the same peak.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def one(world: str, n: int, dedup: float, rollouts: int, folder: Path) -> dict[str, Any]:
    """One size, here and now."""
    from noria import cli_worlds
    from noria.core.recipe_phases import Difficulty
    from noria.stages.prune import by_habits, prune
    from noria.stages.taskstream import Wanted, grow

    with cli_worlds.opened(world) as opened:
        cli_worlds.draw(opened, "train", 1, 0)  # what the world loads at first use is not the stream's
        start, began, idle = peak_mib(), time.process_time(), held_mib()
        made = grow(opened, folder / "tasks.jsonl", Wanted(world, "train", 0, n, dedup))
        making, making_peak = time.process_time() - began, peak_mib()
        row = {
            "n": made["tasks"], "drawn": made["drawn"], "dropped": made["dropped"], "make_s": round(making, 1),
            "make_ms": round(1000 * making / made["tasks"], 3), "start_mib": round(start, 1),
            "make_mib": round(making_peak, 1), "held_mib": round(held_mib() - idle, 1),
        }  # fmt: skip
        if rollouts:
            began = time.process_time()
            source, path, roll = folder / "tasks.jsonl", folder / "kept.jsonl", by_habits(opened, rollouts, 0)
            kept = prune(source, path, Difficulty(rollouts=rollouts), {}, roll)
            pruning = time.process_time() - began
            row |= {
                "kept": kept["tasks"], "pruned": kept["dropped"], "prune_s": round(pruning, 1),
                "prune_ms": round(1000 * pruning / made["tasks"], 3), "prune_mib": round(peak_mib(), 1),
            }  # fmt: skip
    return row


def peak_mib() -> float:
    """Greatest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def held_mib() -> float:
    """Memory of this process that is its own: files that are mapped do not count, the kernel takes those back."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="instructions")
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--dedup", type=float, default=0.8)
    parser.add_argument("--rollouts", type=int, default=8, help="of each task; 0 = no pruning")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--size", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        if options.size:
            print(json.dumps(one(options.world, options.size, options.dedup, options.rollouts, Path(folder))))
            return
    rows = []
    for size in (size for size in SIZES if size <= options.most):
        command = [sys.executable, __file__, "--world", options.world, "--size", str(size)]
        command += ["--dedup", str(options.dedup), "--rollouts", str(options.rollouts)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(done.stdout))
        if not options.json:
            shown = {name: value for name, value in rows[-1].items() if name not in ("dropped", "pruned")}
            if len(rows) == 1:
                print("".join(f"{name:>10}" for name in shown))
            print("".join(f"{value:>10}" for value in shown.values()), flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
