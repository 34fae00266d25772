"""Seconds per step against TRL: same model, prompts or texts, lengths and sizes, on this machine's CPU.

    python bench/vs_trl.py [--what grpo sft distill] [--steps 10] [--repeats 3] [--threads 1 2] [--json]

Model `builtin:tiny` (a Qwen3 of 1.04 M parameters), fp32, one optimiser step per batch. The prompts are of the world
`arithmetic`, one message of at most 64 tokens, temperature 1; both sides see each of the same tasks once.

grpo     `--prompts` times `--group` rollouts, no KL, against GRPOTrainer. Groups without signal are sampled by both and
         put through the loss by TRL alone, which they do not change: leaving them out is a difference that is meant.
distill  as many prompts with one rollout each; reverse KL over the whole vocabulary towards one teacher, a perturbed
         copy, against DistillationTrainer with beta 1.
sft      cross entropy on solutions, prompts masked, rows of at most 192 tokens, against SFTTrainer in `--sft-modes`:
         packed-N flattens N packed lines (bfd) into one sequence whose block-diagonal mask SDPA takes whole, and
         accumulates gradients up to the batch; padded makes one rectangle of the batch and packs nothing.

Sampled phases of ours are what a recipe runs (`stages.loop`, every step's state saved): actor, learner and teacher are
single-thread processes, the actor one step ahead at most. TRL runs in one process, with each number of threads named,
and samples from the current weights. The best of its settings counts. Runs take turns, each in a fresh process; the
first two and the last two steps are not timed, because ours fills and empties its pipeline there. A supervised step
of both sides begins where its batch is put together.

Tokens are counted where they are trained: in ours from the masks of the rows that a step is given, in TRL from the
masks that its loss reads. Sampled and trained per step must lie within a tenth of each other, but for the groups named
above; else the exit code is 1.
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
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vs_trl_work import counted_batches, counted_losses, report, unequal

MAX_NEW = 64
LINE_TOKENS = 192
EDGE = 2
WHAT = ("grpo", "sft", "distill")
RECIPE = """
name = "vs-trl"
executor = {{ type = "local", workers = 1 }}
rollout = {{ max_turns = 1, max_new_tokens = {max_new}, max_tokens = 320 }}
[env]
arithmetic = {{ type = "arithmetic" }}
[teachers]
scored = {{ type = "frozen", path = "{teacher}" }}
[phase.{what}]
{phase}
steps = {steps}
lr = 1e-5
minibatches = 1
max_refills = 0
"""
GRPO = 'signal = "group_std"\nprompts_per_step = {prompts}\nrollouts_per_prompt = {group}'
DISTILL = (
    'signal = "teacher"\nroute = "scored"\nloss = {{ reverse_kl = {{}} }}\n'
    "prompts_per_step = {rollouts}\nrollouts_per_prompt = 1"
)


def inner(values: list[Any]) -> list[Any]:
    """The steps between the edges."""
    return values[EDGE:-EDGE]


def context(args: argparse.Namespace, base: Path, teacher: Path, folder: str) -> Any:
    """A round of the recipe in a new run folder, without workers."""
    from noria.core import recipe as recipes
    from noria.core.store import Run
    from noria.stages.context import Context
    from noria.stages.worker import open_worlds
    from noria.tokens.renderer import Renderer

    what = args.what[0]
    sizes = {"prompts": args.prompts, "group": args.group, "rollouts": args.prompts * args.group}
    phase = (GRPO if what == "grpo" else DISTILL).format(**sizes)
    text = RECIPE.format(what=what, phase=phase, steps=args.steps, teacher=teacher, max_new=MAX_NEW)
    file = Path(folder) / "vs_trl.toml"
    file.write_text(text, encoding="utf-8")
    recipe = recipes.load([file])
    worlds, _ = open_worlds(recipe)
    pool: Any = None
    return Context(recipe, Run.create(Path(folder) / "runs", recipe), 1, base, worlds, Renderer.load(base), pool)


def ours_sampled(args: argparse.Namespace, base: Path, teacher: Path) -> dict[str, float]:
    """Seconds and tokens per step of a real phase of the loop, from the run's metrics and the trainer's rows."""
    from noria.core.codec import read_json_lines
    from noria.core.types import Trajectory
    from noria.stages.scoring import Scorers
    from noria.stages.signals import GroupAdvantage
    from noria.stages.train import make
    from noria.stages.worker import Pool
    from noria.trainers.local import LocalTrainer

    trained: list[int] = []
    silent: list[int] = []
    step, advantages = LocalTrainer.step, GroupAdvantage.advantages

    def counted(trainer: LocalTrainer, rows: Any, *rest: Any) -> dict[str, float]:
        trained.append(sum(int(row.mask[1:].sum()) for row in rows))
        return step(trainer, rows, *rest)

    def compared(signal: GroupAdvantage, rollouts: Sequence[Trajectory]) -> list[float | None]:
        found = advantages(signal, rollouts)
        silent.extend(t.record.action_tokens for t, a in zip(rollouts, found, strict=True) if a is None)
        return found

    LocalTrainer.step = counted  # type: ignore[method-assign, assignment]
    GroupAdvantage.advantages = compared  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        ctx, what = context(args, base, teacher, folder), args.what[0]
        pool, scorers = Pool(ctx.recipe, base), Scorers(ctx.recipe.scorers, ctx.recipe.student.trainer)
        try:
            make(replace(ctx, pool=pool, scorers=scorers), what, ctx.recipe.phase[what], base, list(ctx.worlds), {})
        finally:
            scorers.close()
            pool.close()
        rows = [row for row in read_json_lines(ctx.run.path / "metrics.jsonl") if "time/step" in row]
    return {
        "seconds": statistics.mean(row["time/step"] for row in inner(rows)),
        "sampled": statistics.mean(row["response_tokens/mean"] for row in rows) * args.prompts * args.group,
        "trained": sum(trained) / args.steps, "silent": sum(silent) / args.steps,
    }  # fmt: skip


def ours_sft(args: argparse.Namespace, base: Path, teacher: Path) -> dict[str, float]:
    """The same of the trainer's own packing and cross entropy, with the threads that it has when nothing else runs."""
    import torch

    from noria.core.memory import keep_freed_memory
    from noria.losses import ce
    from noria.trainers.local import Config, build
    from noria.trainers.rows import Row

    config = Config(line_tokens=LINE_TOKENS)
    keep_freed_memory()
    torch.set_num_threads(config.alone_threads)
    trainer = build(config, base)
    trainer.configure(1e-5, (0.9, 0.99), 0.0, 1.0)
    seconds, trained, read = [], [], []
    rows = iter(texts(args, base))
    for _ in range(args.steps):
        began = time.monotonic()
        batch: list[Row] = []
        while sum(map(len, batch)) < args.tokens:
            ids, mask = next(rows)
            batch.append(Row.plain(ids, mask, group=len(batch)))
        trainer.step(batch, {"ce": ce.build(ce.Config())}, {"ce": 1.0})
        seconds.append(time.monotonic() - began)
        read.append(sum(map(len, batch)))
        trained.append(sum(int(row.mask[1:].sum()) for row in batch))
    return {
        "seconds": statistics.mean(inner(seconds)), "sampled": statistics.mean(read),
        "trained": statistics.mean(trained), "silent": 0.0,
    }  # fmt: skip


def texts(args: argparse.Namespace, base: Path) -> list[tuple[list[int], list[int]]]:
    """Token ids and masks of solved tasks, enough for every step and one more: prompt without loss, then solution."""
    from noria.envs import arithmetic
    from noria.tokens.renderer import Renderer

    world, renderer = arithmetic.build(arithmetic.Config(), None), Renderer.load(base)
    found: list[tuple[list[int], list[int]]] = []
    size = 0
    for task in world.tasks("train", args.tokens * (args.steps + 2) // 32, 0):
        prompt = list(renderer.prompt(task).ids)
        said = [*renderer.encode("\n".join(world.reference(task))), renderer.end_ids[0]]
        if len(prompt) + len(said) <= LINE_TOKENS:
            found.append(([*prompt, *said], [0] * len(prompt) + [1] * len(said)))
            size += len(prompt) + len(said)
        if size >= args.tokens * (args.steps + 2):
            return found
    raise SystemExit("too few tasks for so many tokens")


class Prompts:
    """Prompts as texts of which TRL's tokenizer makes the very tokens that ours reads, and their rewards."""

    def __init__(self, args: argparse.Namespace, base: Path, teacher: Path) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(base)
        prompts = args.prompts * (1 if args.what[0] == "grpo" else args.group)
        with tempfile.TemporaryDirectory() as folder:
            ctx = context(args, base, teacher, folder)
            self.world, renderer = ctx.worlds["arithmetic"], ctx.renderer
            self.tasks = ctx.fresh_tasks("arithmetic", args.what[0], prompts * args.steps)
        ids = [list(renderer.prompt(task).ids) for task in self.tasks]
        self.rows = [{"prompt": self.tokenizer.decode(each), "which": i} for i, each in enumerate(ids)]
        read = [self.tokenizer(row["prompt"], add_special_tokens=False)["input_ids"] for row in self.rows]
        assert read == ids, "both must see the same prompt tokens"

    def reward(self, prompts: list[str], completions: list[str], which: list[int], **_: Any) -> list[float]:
        """What the world says of each completion."""
        out = []
        for text, i in zip(completions, which, strict=True):
            episode = self.world.open(self.tasks[i])
            episode.act(text)
            out.append(float(episode.grade().reward or 0.0))
        return out


def shared(args: argparse.Namespace, out: str) -> dict[str, Any]:
    """Settings that every trainer of TRL gets."""
    return {
        "output_dir": out, "use_cpu": True, "bf16": False, "fp16": False, "learning_rate": 1e-5,
        "max_steps": args.steps, "report_to": [], "save_strategy": "no", "logging_steps": 1,
        "gradient_checkpointing": False, "disable_tqdm": True,
    }  # fmt: skip


def theirs_sampled(args: argparse.Namespace, base: Path, teacher: Path) -> dict[str, float]:
    """GRPO or distillation with TRL, in this process, with `args.threads[0]` threads."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl import DistillationConfig, DistillationTrainer, GRPOConfig, GRPOTrainer

    prompts, ends, rollouts = Prompts(args, base, teacher), Clock(), args.prompts * args.group
    model = AutoModelForCausalLM.from_pretrained(base)
    with tempfile.TemporaryDirectory() as out:
        settings = shared(args, out) | {
            "per_device_train_batch_size": rollouts, "max_completion_length": MAX_NEW, "temperature": 1.0,
        }  # fmt: skip
        parts = {"model": model, "train_dataset": Dataset.from_list(prompts.rows), "callbacks": [ends.callback()]}
        parts["processing_class"] = prompts.tokenizer
        if args.what[0] == "grpo":
            config = GRPOConfig(**settings, num_generations=args.group, beta=0.0)
            trainer = GRPOTrainer(args=config, reward_funcs=prompts.reward, **parts)
        else:
            other = AutoModelForCausalLM.from_pretrained(teacher)
            trainer = DistillationTrainer(args=DistillationConfig(**settings, beta=1.0), teacher_model=other, **parts)
        counts: list[tuple[int, int]] = []
        trainer.compute_loss = counted_losses(trainer.compute_loss, counts)
        trainer.train()
    name = "completions/mean_length"
    sampled = statistics.mean(row[name] for row in trainer.state.log_history if name in row) * rollouts
    trained, silent = (sum(column) / args.steps for column in zip(*counts, strict=True))
    return {"seconds": ends.per_step(), "sampled": sampled, "trained": trained, "silent": silent}


def theirs_sft(args: argparse.Namespace, base: Path, teacher: Path) -> dict[str, float]:
    """Supervised fine-tuning with TRL on the same token ids and masks."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    rows, ends = texts(args, base), Clock()
    mode, _, lines = args.sft_modes[0].partition("-")
    length = sum(len(ids) for ids, _ in rows) / len(rows)
    settings: dict[str, Any] = {"per_device_train_batch_size": round(args.tokens / length), "packing": False}
    parts = 1
    if mode == "packed":
        parts = round(args.tokens / LINE_TOKENS / int(lines))
        settings = {"per_device_train_batch_size": int(lines), "gradient_accumulation_steps": parts, "packing": True}
    counts: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as out:
        trainer = SFTTrainer(
            model=AutoModelForCausalLM.from_pretrained(base),
            args=SFTConfig(**shared(args, out), **settings, max_length=LINE_TOKENS, completion_only_loss=True),
            train_dataset=Dataset.from_list([{"input_ids": ids, "completion_mask": mask} for ids, mask in rows]),
            processing_class=AutoTokenizer.from_pretrained(base), callbacks=[ends.callback()],
        )  # fmt: skip
        trainer.data_collator = counted_batches(trainer.data_collator, counts)
        trainer.train()
    read, trained = (parts * statistics.mean(column) for column in zip(*counts, strict=True))
    return {"seconds": ends.per_step(), "sampled": read, "trained": trained, "silent": 0.0}


class Clock:
    """When each step of a trainer ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def callback(self) -> Any:
        from transformers import TrainerCallback

        ends = self.ends

        class Noted(TrainerCallback):
            def on_step_end(self, *_: Any, **__: Any) -> None:
                ends.append(time.monotonic())

        return Noted()

    def per_step(self) -> float:
        """Mean seconds of the steps between the edges."""
        whole = inner([float("nan"), *(b - a for a, b in itertools.pairwise(self.ends))])
        return statistics.mean(whole)


def one(args: argparse.Namespace) -> dict[str, float]:
    """One measurement, in this process."""
    import torch
    from teachers import perturbed

    from noria.stages.models import resolve_model

    torch.set_num_threads(args.threads[0])
    sides = {"ours": (ours_sft, ours_sampled), "trl": (theirs_sft, theirs_sampled)}
    measure = sides[args.only][args.what[0] != "sft"]
    with tempfile.TemporaryDirectory() as folder:
        teacher = perturbed(Path(folder), 1)[0] if args.what[0] == "distill" else Path(folder)
        return measure(args, resolve_model("builtin:tiny"), teacher)


def child(args: argparse.Namespace, what: str, who: str, threads: int, mode: str = "padded") -> dict[str, float]:
    """One measurement in a fresh process."""
    command = [sys.executable, __file__, "--only", who, "--what", what, "--threads", str(threads), "--sft-modes", mode]
    for name in ("steps", "prompts", "group", "tokens"):
        command += [f"--{name}", str(getattr(args, name))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{what} of {who} failed:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(args: argparse.Namespace, what: str) -> dict[str, list[dict[str, float]]]:
    """All runs of one comparison, in turn."""
    found: dict[str, list[dict[str, float]]] = {}
    modes = args.sft_modes if what == "sft" else [""]
    for _ in range(args.repeats):
        found.setdefault("noria", []).append(child(args, what, "ours", 1))
        for threads, mode in itertools.product(args.threads, modes):
            name = f"trl {mode} {threads} threads".replace("  ", " ")
            found.setdefault(name, []).append(child(args, what, "trl", threads, mode or "padded"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", nargs="+", choices=WHAT, default=list(WHAT))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=8064, help="of a supervised step")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of torch, for TRL")
    parser.add_argument("--sft-modes", nargs="+", default=["packed-6", "padded"], help="packed-N or padded, for TRL")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["ours", "trl"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.steps <= 2 * EDGE:
        parser.error(f"--steps must be above {2 * EDGE}")
    if args.only:
        print(json.dumps(one(args)))
        return
    try:
        import datasets  # noqa: F401
        import trl
    except ImportError as fault:
        print(f"skipped: {fault.name} is not installed - pip install --no-deps trl, and datasets with what it needs")
        return
    found = {what: compare(args, what) for what in args.what}
    if args.json:
        faults = {what: unequal(what, runs) for what, runs in found.items()}
        print(json.dumps({"trl": trl.__version__, "runs": found, "unequal": faults}))
    else:
        sizes = f"{args.prompts} x {args.group} rollouts, {args.tokens} tokens of a supervised step"
        print(f"TRL {trl.__version__}, {sizes}")
        faults = {what: report(what, runs) for what, runs in found.items()}
    if any(faults.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
