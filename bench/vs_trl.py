"""Seconds per step of group-relative policy optimisation against TRL's GRPOTrainer, same model, prompts and sizes.

    python bench/vs_trl.py [--steps 8] [--prompts 8] [--group 8] [--repeats 3] [--threads 1 2] [--json]

Model `builtin:tiny` (a Qwen3 of 1.04 M parameters), prompts and rewards from the world `arithmetic`, one message of at
most 64 tokens per rollout, temperature 1, one optimiser step per batch, no KL, fp32, CPU. Ours runs its actor and its
learner as two single-thread processes, TRL in one process with each number of threads named; the best of them counts.
Runs alternate, each in a fresh process; the first step of a run (warm-up) is left out. Equal work is checked: tokens
sampled per step are printed for both and must lie within a tenth of each other.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MAX_NEW = 64
RECIPE = """
name = "vs-trl"
rounds = 1
seed = 0
[env]
arithmetic = {{ type = "arithmetic", tasks = 8 }}
[teachers]
direct = {{ type = "scripted", strategy = "direct" }}
[rollout]
max_new_tokens = {max_new}
samples_per_task = 1
[supervisor]
type = "counterfactual"
pairs = 1
continuations = 2
replay_budget = 4
[hint]
tasks = 1
samples_per_task = 1
[phase]
rl = {{ signal = "group_std", prompts_per_step = {prompts}, rollouts_per_prompt = {group}, steps = {steps}, \
lr = 1e-5, minibatches = 1, max_refills = 0 }}
[gate]
tasks = 8
[eval]
unseen_tasks = 0
"""


def ours(args: argparse.Namespace) -> dict[str, float]:
    """Seconds and sampled tokens per step of a real phase of the loop, read from the run's metrics."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "recipe.toml"
        recipe.write_text(RECIPE.format(max_new=MAX_NEW, prompts=args.prompts, group=args.group, steps=args.steps))
        command = [sys.executable, "-m", "noria", "run", str(recipe), f'runs_dir="{folder}/runs"']
        subprocess.run(command, check=True, capture_output=True, text=True)
        (path,) = Path(folder).glob("runs/*/metrics.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [row for row in rows if "time/step" in row][1:]
    return {
        "seconds": statistics.median(row["time/step"] for row in steps),
        "tokens": statistics.mean(row["response_tokens/mean"] * args.prompts * args.group for row in steps),
        "trained_rows": statistics.mean(row["rows"] for row in steps),
    }


def theirs(args: argparse.Namespace) -> dict[str, float]:
    """The same with TRL, in this process, with `args.threads[0]` threads."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from noria.envs import arithmetic
    from noria.stages.models import resolve_model
    from noria.tokens.renderer import Renderer

    torch.set_num_threads(args.threads[0])
    folder = resolve_model("builtin:tiny")
    world = arithmetic.build(arithmetic.Config(), None)
    renderer, tokenizer = Renderer.load(folder), AutoTokenizer.from_pretrained(folder)
    tasks = world.tasks("train", args.prompts * (args.steps + 1), 0)
    data = [{"prompt": tokenizer.decode(renderer.prompt(task, "").ids), "which": i} for i, task in enumerate(tasks)]
    first = tokenizer(data[0]["prompt"], add_special_tokens=False)["input_ids"]
    assert first == list(renderer.prompt(tasks[0], "").ids), "both must see the same prompt tokens"

    def reward(prompts: list[str], completions: list[str], which: list[int], **_: Any) -> list[float]:
        out = []
        for text, i in zip(completions, which, strict=True):
            episode = world.open(tasks[i])
            episode.act(text)
            out.append(float(episode.grade().reward or 0.0))
        return out

    ends: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.monotonic())

    with tempfile.TemporaryDirectory() as out:
        config = GRPOConfig(
            output_dir=out, use_cpu=True, bf16=False, fp16=False, per_device_train_batch_size=args.prompts * args.group,
            num_generations=args.group, max_completion_length=MAX_NEW, temperature=1.0, beta=0.0, learning_rate=1e-5,
            max_steps=args.steps, report_to=[], save_strategy="no", logging_steps=1, gradient_checkpointing=False,
            disable_tqdm=True,
        )  # fmt: skip
        model = AutoModelForCausalLM.from_pretrained(folder)
        trainer = GRPOTrainer(
            model=model, reward_funcs=reward, args=config, train_dataset=Dataset.from_list(data),
            processing_class=tokenizer, callbacks=[Clock()],
        )  # fmt: skip
        trainer.train()
    lengths = [row["completions/mean_length"] for row in trainer.state.log_history if "completions/mean_length" in row]
    return {
        "seconds": statistics.median(b - a for a, b in itertools.pairwise(ends)),
        "tokens": statistics.mean(lengths[1:]) * args.prompts * args.group,
        "trained_rows": float(args.prompts * args.group),
    }


def child(args: argparse.Namespace, who: str, threads: int) -> dict[str, float]:
    """One measurement in a fresh process."""
    command = [sys.executable, __file__, "--only", who, "--threads", str(threads)]
    for name in ("steps", "prompts", "group"):
        command += [f"--{name}", str(getattr(args, name))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{who} failed:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of torch, for TRL")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["ours", "trl"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(ours(args) if args.only == "ours" else theirs(args)))
        return
    try:
        import datasets  # noqa: F401
        import trl
    except ImportError as fault:
        print(f"skipped: {fault.name} is not installed - pip install --no-deps trl, and datasets with what it needs")
        return
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(args.repeats):
        found.setdefault("noria", []).append(child(args, "ours", 1))
        for threads in args.threads:
            found.setdefault(f"trl {threads} threads", []).append(child(args, "trl", threads))
    if args.json:
        print(json.dumps({"trl": trl.__version__, "runs": found}))
        return
    print(f"TRL {trl.__version__}, {args.prompts} prompts x {args.group} rollouts, {args.repeats} runs each")
    middle = {}
    for name, runs in found.items():
        seconds = sorted(run["seconds"] for run in runs)
        middle[name] = statistics.median(seconds)
        tokens = statistics.mean(run["tokens"] for run in runs)
        rows = statistics.mean(run["trained_rows"] for run in runs)
        print(
            f"{name:>14}: {middle[name]:.2f} s per step ({seconds[0]:.2f} to {seconds[-1]:.2f}), "
            f"{tokens:.0f} tokens sampled, {rows:.0f} rows trained"
        )
    best = min((value, name) for name, value in middle.items() if name != "noria")
    print(f"noria is {best[0] / middle['noria']:.2f} times as fast as {best[1]}")


if __name__ == "__main__":
    main()
