"""What the quickstart promises, against finished runs (one per seed): a Markdown table and a verdict per promise.

    python bench/quickstart.py runs/quickstart-… [runs/…] [--json]

Gains are paired over the same held-out tasks and draws; intervals are 95 % (Newcombe's for paired proportions).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from noria.core.stats import newcombe_paired, paired_counts


class NoFigures(SystemExit):
    """A run that is not what is asked about; exit code 2."""

    def __init__(self, run: Path, why: str) -> None:
        print(f"{run} must be a finished run with experts: {why}", file=sys.stderr)
        super().__init__(2)


def outcomes(run: Path, round_: int, model: str, split: str = "heldout") -> dict[str, dict[str, Any]]:
    """Outcomes of one model on one split by rollout id."""
    path = run / f"round-{round_}" / f"evaluate-{model.replace(':', '-')}" / "outcomes.jsonl"
    if not path.exists():
        raise NoFigures(run, f"it has no {path.relative_to(run)}")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["id"]: row for row in rows if row["split"] == split}


def gain(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]], world: str) -> tuple[float, float, float]:
    """Points gained in a world with the ends of the interval."""
    keys = [
        k for k in old
        if k in new and old[k]["world"] == world and None not in (old[k]["reward"], new[k]["reward"])
    ]  # fmt: skip
    counts = paired_counts([old[k]["reward"] >= 1 for k in keys], [new[k]["reward"] >= 1 for k in keys])
    low, high = newcombe_paired(counts)
    return 100 * (counts.only_new - counts.only_old) / len(keys), 100 * low, 100 * high


def read(run: Path) -> dict[str, Any]:
    """Figures of one run."""
    rounds = sorted(int(p.name[6:]) for p in run.glob("round-*") if (p / "gate" / "verdict.json").exists())
    if not rounds:
        raise NoFigures(run, "no round has a verdict")
    recipe = json.loads((run / "recipe.json").read_text())
    worlds = list(recipe["env"])
    first = outcomes(run, rounds[0], "weak")
    promoted = [json.loads((run / f"round-{r}/gate/verdict.json").read_text())["promoted"] for r in rounds]
    last = first
    for r, ok in zip(rounds, promoted, strict=True):
        last = outcomes(run, r, "final") if ok else last
    out: dict[str, Any] = {
        "run": run.name, "seed": recipe["seed"], "promoted": promoted, "worlds": {},
        "seconds": round(sum(json.loads(p.read_text())["seconds"] for p in run.glob("round-*/**/manifest.json"))),
    }  # fmt: skip
    for world in worlds:
        experts = []
        for r in rounds:
            sft, final = outcomes(run, r, "sft"), outcomes(run, r, "final")
            merged = outcomes(run, r, "merged") if (run / f"round-{r}" / "evaluate-merged").exists() else final
            expert = outcomes(run, r, f"expert:{world}")
            experts.append(
                {
                    "gain": gain(sft, expert, world),
                    "merged": gain(sft, merged, world)[0],
                    "efficiency": gain(merged, final, world),
                    "tokens": [_tokens(merged, world), _tokens(final, world)],
                }
            )
        out["worlds"][world] = {
            "weak": _rate(first, world), "final": _rate(last, world), "gain": gain(first, last, world),
            "tokens": [_tokens(first, world), _tokens(last, world)], "experts": experts,
        }  # fmt: skip
    last_round = max((r for r, ok in zip(rounds, promoted, strict=True) if ok), default=None)
    weak = outcomes(run, rounds[0], "weak", "unseen")
    final = outcomes(run, last_round, "final", "unseen") if last_round else weak
    seen = sorted({row["world"] for row in weak.values()})
    out["unseen"] = {w: [_rate(weak, w), _rate(final, w)] for w in seen}
    arms = json.loads((run / f"round-{rounds[0]}" / "resample" / "arms.json").read_text())
    out["hints"] = {arm: {w: 100 * found[w]["rate"] for w in worlds if w in found} for arm, found in arms.items()}
    every = [x for w in out["worlds"].values() for x in w["experts"]]
    first_round = [w["experts"][0] for w in out["worlds"].values()]
    for key, gains in (("kept", every), ("kept_round_1", first_round)):
        out[key] = sum(x["merged"] for x in gains) / max(1e-9, sum(x["gain"][0] for x in gains))
    out["mean_gain"] = sum(w["gain"][0] for w in out["worlds"].values()) / len(worlds)
    return out


def _rate(rows: dict[str, dict[str, Any]], world: str) -> float:
    mine = [r for r in rows.values() if r["world"] == world and r["reward"] is not None]
    return 100 * sum(r["reward"] >= 1 for r in mine) / len(mine)


def _tokens(rows: dict[str, dict[str, Any]], world: str) -> float:
    mine = [r["tokens"] for r in rows.values() if r["world"] == world and r["reward"] == 1]
    return sum(mine) / max(1, len(mine))


def table(runs: list[dict[str, Any]]) -> list[str]:
    """The Markdown table of the README."""
    lines = ["| seed | world | weak | final | gain (95 %) | expert gain, round 1, 2 | tokens per solve |"]
    lines.append("|---|---|---|---|---|---|---|")
    for run in runs:
        for world, w in run["worlds"].items():
            experts = ", ".join(f"{x['gain'][0]:+.1f}" for x in w["experts"])
            g, low, high = w["gain"]
            lines.append(
                f"| {run['seed']} | {world} | {w['weak']:.1f} | {w['final']:.1f} "
                f"| {g:+.1f} ({low:+.1f} to {high:+.1f}) | {experts} | {w['tokens'][0]:.0f} → {w['tokens'][1]:.0f} |"
            )
    return lines


def promises(run: dict[str, Any]) -> dict[str, bool]:
    """Which promises one run keeps."""
    worlds = run["worlds"].values()
    reasoning = run["worlds"].get("arithmetic")
    return {
        "mean gain >= 30 points": run["mean_gain"] >= 30,
        "gain above zero in every world": all(w["gain"][1] > 0 for w in worlds),
        "every expert >= +10 points, both rounds": all(x["gain"][0] >= 10 for w in worlds for x in w["experts"]),
        "every expert >= +10 points, round 1": all(w["experts"][0]["gain"][0] >= 10 for w in worlds),
        "merged keeps >= 80 % of the experts' gains, both rounds": run["kept"] >= 0.8,
        "merged keeps >= 80 % of the experts' gains, round 1": run["kept_round_1"] >= 0.8,
        "tokens per solve -20 % where it reasons": bool(
            reasoning and reasoning["tokens"][1] <= 0.8 * reasoning["tokens"][0]
        ),
        "token efficiency costs nothing beyond noise": bool(
            reasoning and all(x["efficiency"][2] >= 0 for x in reasoning["experts"])
        ),
        "at most 15 minutes": run["seconds"] <= 900,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not args.runs:
        print("skipped: name finished runs of recipes/quickstart.toml, one per seed")
        return
    runs = sorted((read(path) for path in args.runs), key=lambda run: run["seed"])
    if args.json:
        print(json.dumps(runs))
        return
    print("\n".join(table(runs)))
    print()
    for run in runs:
        kept = f"merged keeps {100 * run['kept_round_1']:.0f} % of the experts' gains in round 1"
        print(f"seed {run['seed']}: mean gain {run['mean_gain']:+.1f} points, {kept}, {run['seconds']} s")
        arms = "; ".join(
            f"{arm} " + ", ".join(f"{x:.0f}" for x in found.values()) for arm, found in run["hints"].items()
        )
        print(f"  re-samples solved in round 1, % by world: {arms}")
        unseen = ", ".join(f"{world} {a:.1f} → {b:.1f}" for world, (a, b) in run["unseen"].items())
        print(f"  unseen families, pass@1 in %: {unseen or 'not measured'}")
        for world, w in run["worlds"].items():
            for number, x in enumerate(w["experts"], start=1):
                g, (e, low, high) = x["gain"], x["efficiency"]
                gained = f"expert {g[0]:+.1f} ({g[1]:+.1f} to {g[2]:+.1f}), merged {x['merged']:+.1f}"
                spared = f"efficiency {e:+.1f} ({low:+.1f} to {high:+.1f})"
                tokens = f"tokens {x['tokens'][0]:.0f} → {x['tokens'][1]:.0f}"
                print(f"  round {number} {world}: {gained}; {spared}, {tokens}")
        for name, ok in promises(run).items():
            print(f"  {'yes' if ok else 'NO '}  {name}")


if __name__ == "__main__":
    main()
