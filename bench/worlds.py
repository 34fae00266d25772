"""What recipes/worlds.toml promises, against finished runs (one per seed): a Markdown table and a verdict per promise.

    python bench/worlds.py runs/worlds-… [runs/…] [--json]

Gains are paired over the same held-out tasks and draws; intervals are 95 % (Newcombe's for paired proportions). Runs of
`recipes/five.toml` are read too.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from quickstart import read, table

MINUTES = 10


def promises(run: dict[str, Any]) -> dict[str, bool]:
    """Which promises one run keeps."""
    worlds = run["worlds"].values()
    return {
        "gain above zero in every world, with its interval": all(w["gain"][1] > 0 for w in worlds),
        "gain of at least 10 points in every world": all(w["gain"][0] >= 10 for w in worlds),
        "every expert gains": all(w["experts"][0]["gain"][1] > 0 for w in worlds),
        f"at most {MINUTES} minutes": run["seconds"] <= 60 * MINUTES,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not args.runs:
        print("skipped: name finished runs of recipes/worlds.toml, one per seed")
        return
    runs = sorted((read(path) for path in args.runs), key=lambda run: run["seed"])
    if args.json:
        print(json.dumps(runs))
        return
    print("\n".join(table(runs)))
    for run in runs:
        kept = ", ".join(f"{'yes' if ok else 'NO'}: {what}" for what, ok in promises(run).items())
        time = f"{run['seconds'] // 60}:{run['seconds'] % 60:02d}"
        print(f"\nseed {run['seed']}: {time} minutes, promoted {run['promoted']}")
        print(f"  the merged model keeps {100 * run['kept']:.0f} % of the experts' gains\n  {kept}")
        print("  unseen " + ", ".join(f"{w} {a:.1f} -> {b:.1f}" for w, (a, b) in run["unseen"].items()))
    sys.exit(0 if all(all(promises(run).values()) for run in runs) else 1)


if __name__ == "__main__":
    main()
