"""What the two-stage reward of tables buys: the answer alone, the way alone, or the way first, over the same steps.

    python bench/two_stage.py --model build/tables --out runs/two-stage --seeds 0,1,2

Each arm is one reinforcement phase of `noria run` over `tableqa`, from the same model with the same tasks and seeds; a
run that is there is read, not repeated. The model is that of `make base MIX=tables`. One line per run: share of the
held-out tasks solved before and after, the gain with its 95 % interval (Newcombe's for paired proportions), seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from quickstart import gain, outcomes

ARMS = {
    "outcome": "",
    "process": "use = { two_stage = { parts = ['process'], threshold = 1.0 } }",
    "two_stage": "use = { two_stage = { parts = ['process'], threshold = 0.4 } }",
}
RECIPE = """
name = "{arm}"
rounds = 1
seed = {seed}
runs_dir = "{home}"

[student]
model = "{model}"
engine = {{ type = "embedded" }}
trainer = {{ type = "local" }}

[teachers]
first = {{ type = "scripted", strategy = "expert:1" }}

[env]
tableqa = {{ type = "tableqa", tasks = 64{env} }}

[rollout]
samples_per_task = 1

[supervisor]
type = "counterfactual"
key_actions = 1
pairs = 2
continuations = 2
replay_budget = 4

[hint]
tasks = 2
samples_per_task = 1

[phase.rl]
signal = "group_mean"
prompts_per_step = 12
rollouts_per_prompt = 8
steps = {steps}
lr = 1e-4
minibatches = 2
max_refills = 0
validation = {{ every = 4, tasks = 48 }}
{use}

[gate]
tasks = {tasks}
confidence = 0.95
"""


def run(arm: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Start or go on with one arm's run and read what it gave."""
    home = given.out / f"{arm}-{seed}"
    home.mkdir(parents=True, exist_ok=True)
    recipe = home / "recipe.toml"
    facts = {
        "model": given.model.resolve(),
        "env": given.env and f", {given.env}",
        "steps": given.steps,
        "tasks": given.tasks,
    }
    recipe.write_text(RECIPE.format(arm=arm, seed=seed, home=home.resolve(), use=ARMS[arm], **facts))
    found = sorted(home.glob(f"{arm}-*/"))
    if not (found and (found[-1] / "round-1/gate/verdict.json").exists()):
        order = ["resume", str(found[-1])] if found else ["run", str(recipe)]
        subprocess.run([sys.executable, "-m", "noria", *order], check=True, stdout=subprocess.DEVNULL)
    folder = sorted(home.glob(f"{arm}-*/"))[-1]
    old, new = outcomes(folder, 1, "weak"), outcomes(folder, 1, "final")
    return {
        "arm": arm,
        "seed": seed,
        "before": _share(old),
        "after": _share(new),
        "gain": [round(x, 1) for x in gain(old, new, "tableqa")],
        "seconds": round(sum(json.loads(p.read_text())["seconds"] for p in folder.glob("round-1/**/manifest.json"))),
    }


def _share(rows: dict[str, Any]) -> float:
    return round(100 * float(np.mean([row["reward"] == 1 for row in rows.values() if row["reward"] is not None])), 1)


def main() -> None:
    """One line of JSON per arm and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/two-stage"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--tasks", type=int, default=384, help="held-out tasks")
    parser.add_argument("--env", default="", help="further options of the world, as a recipe writes them")
    given = parser.parse_args()
    if given.model is None:
        print("skipped: name a model that knows tables, --model build/tables (make base MIX=tables MODEL=build/tables)")
        return
    for seed in map(int, given.seeds.split(",")):
        for arm in given.arms.split(","):
            print(json.dumps(run(arm, seed, given)), flush=True)


if __name__ == "__main__":
    main()
