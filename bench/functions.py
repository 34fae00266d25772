"""What recipes/functions.toml gains on held-out functions, against finished runs (one per seed): a Markdown table.

    python bench/functions.py runs/functions-… [runs/…] [--tasks functions/functions.jsonl] [--json]

Gains are paired over the same held-out tasks; the interval of one run is Newcombe's, 95 %. Tasks of one function are
alike, and so are runs over the same tasks, so the interval over all runs draws whole functions anew: for each of 10,000
draws the mean over their tasks of the gain, averaged over the runs.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from quickstart import gain, outcomes

from noria.envs.microswe import given

WORLD, DRAWS = "repair", 10_000
MODELS = ("weak", "sft", "final")


def rates(run: Path) -> dict[str, Any]:
    """Share solved of each model in %, and the gain of the last over the first in points."""
    found = {model: outcomes(run, 1, model) for model in MODELS}
    row: dict[str, Any] = {"run": run.name, "seed": json.loads((run / "recipe.json").read_text())["seed"]}
    for model, rows in found.items():
        known = [one["reward"] >= 1 for one in rows.values() if one["reward"] is not None]
        row[model], row["tasks"] = 100 * float(np.mean(known)), len(known)
    row["gain"] = gain(found["weak"], found["final"], WORLD)
    row["sft_gain"] = gain(found["weak"], found["sft"], WORLD)
    row["promoted"] = json.loads((run / "round-1/gate/verdict.json").read_text())["promoted"]
    return row


def together(runs: list[Path], function: dict[str, str], model: str) -> dict[str, float]:
    """Mean gain of a model over all runs in points, with the interval that whole functions drawn anew give."""
    by_function: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        weak, other = outcomes(run, 1, "weak"), outcomes(run, 1, model)
        for key in weak.keys() & other.keys():
            old, new = weak[key]["reward"], other[key]["reward"]
            if None not in (old, new):
                by_function[function[weak[key]["task"].rpartition("-")[2]]].append(float(new >= 1) - float(old >= 1))
    sums = np.array([sum(values) for values in by_function.values()])
    counts = np.array([len(values) for values in by_function.values()])
    drawn = np.random.default_rng(0).integers(0, len(sums), (DRAWS, len(sums)))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return {
        "gain": 100 * float(sums.sum() / counts.sum()), "low": 100 * float(low), "high": 100 * float(high),
        "functions": len(sums), "episodes": int(counts.sum()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--tasks", default="functions/functions.jsonl", help="the file that the runs played")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    tasks = [task for found in given.load(args.tasks).values() for task in found]
    function = {task.id.rpartition("-")[2]: str(task.data["names"]["F"]) for task in tasks}
    rows = [rates(run) for run in args.runs]
    all_ = {model: together(args.runs, function, model) for model in MODELS[1:]}
    if args.json:
        print(json.dumps({"runs": rows, "together": all_}))
        return
    print("| seed | before | after the supervised steps | after reinforcement | gain (95 %) | gate |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        points, low, high = row["gain"]
        verdict = "promoted" if row["promoted"] else "kept"
        print(
            f"| {row['seed']} | {row['weak']:.1f} | {row['sft']:.1f} | {row['final']:.1f} | "
            f"{points:+.1f} ({low:+.1f} to {high:+.1f}) | {verdict} |"
        )
    for model, told in all_.items():
        print(
            f"{model}, all runs: {told['gain']:+.1f} points ({told['low']:+.1f} to {told['high']:+.1f}), "
            f"{told['functions']} functions, {told['episodes']} episodes"
        )


if __name__ == "__main__":
    main()
