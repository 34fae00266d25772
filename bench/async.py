"""How much of what asynchrony could save it does save, with slow tools.

    python bench/async.py [--latency-s 0.01] [--steps 10] [--rounds 2] [--json]

A step of a synchronous phase takes rollout + train seconds. Were both fully overlapped it would take
max(rollout, train); the share of that bound is max(rollout, train) / (seconds of an asynchronous step). Synchronous
and asynchronous phases take turns; the first two steps of each are left out; medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = 2
RECIPE = """
name = "async"
executor = {{ type = "local", workers = 1 }}
rollout = {{ max_turns = 6, max_new_tokens = 64, max_tokens = 320 }}
[env]
{world} = {{ type = "slow.world", of = "{world}", latency_s = {latency_s} }}
[phase.rl]
signal = "group_mean"
steps = {steps}
prompts_per_step = {prompts}
rollouts_per_prompt = 8
minibatches = 2
max_refills = 0
max_staleness = {staleness}
lr = 1e-5
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-s", type=float, default=0.01, help="seconds that every tool call takes longer")
    parser.add_argument("--world", default="ledger")
    parser.add_argument("--prompts", type=int, default=6, help="groups of a step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2, help="phases of each kind, in turn")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.steps <= SKIPPED:
        parser.error(f"--steps must be above {SKIPPED}")
    waits: list[float] = []
    trains: list[float] = []
    steps: list[float] = []
    for _ in range(args.rounds):
        for row in phase(args, staleness=0):
            waits.append(row["time/wait"])
            trains.append(row["time/step"] - row["time/wait"])
        steps += [row["time/step"] for row in phase(args, staleness=1)]
    rollout, train, step = (statistics.median(times) for times in (waits, trains, steps))
    facts = {
        "rollout_s": rollout, "train_s": train, "synchronous_s": rollout + train, "asynchronous_s": step,
        "bound_s": max(rollout, train), "share_of_bound": max(rollout, train) / step,
    }  # fmt: skip
    if args.json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        print(f"{name:16} {value:.3f}")


def phase(args: argparse.Namespace, staleness: int) -> list[dict[str, float]]:
    """The metrics of one phase's steps, but the first ones."""
    import torch

    from noria.core import recipe as recipes
    from noria.core.codec import read_json_lines
    from noria.core.store import Run
    from noria.stages.context import Context
    from noria.stages.models import resolve_model
    from noria.stages.train import make
    from noria.stages.worker import Pool, open_worlds
    from noria.tokens.renderer import Renderer

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "async.toml"
        text = RECIPE.format(
            world=args.world, latency_s=args.latency_s, steps=args.steps, prompts=args.prompts, staleness=staleness
        )
        file.write_text(text, encoding="utf-8")
        recipe = recipes.load([file])
        run, base = Run.create(Path(folder) / "runs", recipe), resolve_model(recipe.student.model)
        worlds, _ = open_worlds(recipe)
        pool = Pool(recipe, base)
        try:
            ctx = Context(recipe, run, 1, base, worlds, Renderer.load(base), pool)
            make(ctx, "rl", recipe.phase["rl"], base, list(worlds), {})
        finally:
            pool.close()
        found: list[dict[str, float]] = read_json_lines(run.path / "metrics.jsonl")[SKIPPED:]
        return found


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
