"""Seconds of a distillation step with 1, 2, 5 and 10 teachers at equal tokens.

    python bench/teachers.py [--teachers 1 2 5 10] [--steps 6] [--repeats 3] [--loss reverse_kl k1_pg] [--json]

Teachers are copies of the built-in model, each perturbed under a seed of its own and saved as a checkpoint in a
temporary folder. The same rows (random tokens, the second half of each the student's) are dealt out to the teachers in
turn, so every step scores and trains the same tokens whatever their number. A step is the learner's own work as
`stages.loop` does it: pi_old, the bank's scores, the mini-batches. Rollouts are left out: they cost the same with any
number of teachers and would only flatter the ratio. One thread; the numbers of teachers take turns. Seconds of the CPU
stand beside those of the clock: where the two differ, other work ran, and the clock's are not to be trusted.

Counted beside the time: loads of each teacher in each step and of its head in each mini-batch, and how many scoring
models were alive at any load.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
import weakref
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from noria.core.memory import keep_freed_memory
from noria.core.recipe_phases import TeacherPhase
from noria.core.recipe_tables import LossTable
from noria.models.load import load_model
from noria.stages.bank import ModelBank
from noria.stages.distil import Distillation
from noria.stages.loop import build_terms, split
from noria.stages.models import resolve_model
from noria.stages.scoring import Answer, Ask, Here, Holder
from noria.trainers.local import Config, LocalTrainer, build
from noria.trainers.rows import Row

MODEL = "builtin:tiny"
TARGET = 1.3
SCALE = 0.01


class Watched(Holder):
    """A host of teachers that counts, whenever it is asked, the models that are held for scoring."""

    def __init__(self, scorer: LocalTrainer, home: Path, seen: list[int]) -> None:
        super().__init__(scorer, home=home)
        self.seen = seen

    def answer(self, ask: Ask) -> Answer:
        self.seen.append(len(ALIVE))
        return super().answer(ask)


#: Every trainer, student or scorer, that is not yet freed.
ALIVE: weakref.WeakSet[LocalTrainer] = weakref.WeakSet()


def counted(trainer: LocalTrainer) -> LocalTrainer:
    ALIVE.add(trainer)
    return trainer


def scorer(folder: Path) -> LocalTrainer:
    """A model that scores, counted as long as it lives."""
    return counted(build(Config(), folder))


class Setting:
    """A student and its bank of `n` teachers, ready to take steps."""

    def __init__(self, n: int, folders: list[Path], loss: str, minibatches: int) -> None:
        base = resolve_model(MODEL)
        self.n, self.minibatches = n, minibatches
        self.trainer = counted(build(Config(), base))
        self.trainer.configure(1e-5, (0.9, 0.99), 0.0, 1.0)
        self.alive: list[int] = []
        host = Here(Watched(scorer(base), base, self.alive))
        self.bank = ModelBank(host, folders[:n], student=self.trainer, home=base)
        table = LossTable.model_validate({"balance": "route"})
        phase = TeacherPhase(signal="teacher", route="teacher", loss={loss: table}, minibatches=minibatches)
        self.terms, self.coefficients = build_terms(phase), {loss: 1.0}
        self.signal = Distillation(phase, self.bank, {f"world{i}": i for i in range(n)})
        self.seconds: list[float] = []
        self.cpu: list[float] = []
        self.loads: Counter[str] = Counter()

    def step(self, rows: list[Row], seed: int) -> tuple[float, float]:
        """One step; returns its seconds by the clock and of the CPU."""
        before = self.bank.loads.copy(), self.bank.head_loads.copy()
        began = time.perf_counter(), time.process_time()
        for row, logp in zip(rows, self.trainer.score(rows), strict=True):
            row.logp_old = row.logp_mu = logp
        self.signal.prepare(rows)
        for part in split(rows, self.minibatches, seed):
            self.trainer.step(part, self.terms, self.coefficients, 1.0, 4096, self.signal.rewrite)
        took = time.perf_counter() - began[0], time.process_time() - began[1]
        for name, now, then in (
            ("weights", self.bank.loads, before[0]), ("head", self.bank.head_loads, before[1]),
        ):  # fmt: skip
            most = max((now - then).values(), default=0)
            self.loads[name] = max(self.loads[name], most)
        return took


def perturbed(folder: Path, n: int) -> list[Path]:
    """`n` checkpoints: the built-in model plus noise of `SCALE` standard deviations of each of its tensors."""
    base = resolve_model(MODEL)
    trainer = LocalTrainer(Config(), load_model(base))
    plain = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    found = []
    for i in range(n):
        draw = torch.Generator().manual_seed(i)
        with torch.no_grad():
            for name, p in trainer.model.named_parameters():
                noise = torch.randn(p.shape, generator=draw)
                p.copy_(plain[name] + SCALE * (plain[name].std() if p.numel() > 1 else 0.0) * noise)
        found.append(folder / f"teacher-{i}")
        trainer.save(found[-1], base)
    return found


def rows_of(count: int, tokens: int, teachers: int, vocabulary: int, seed: int) -> list[Row]:
    """`count` rows, each a prompt group, of `tokens` tokens whose second half is trained; routes in turn."""
    ids = np.random.default_rng(seed).integers(6, vocabulary, (count, tokens))
    mask = [0] * (tokens // 2) + [1] * (tokens - tokens // 2)
    return [Row.plain(line.tolist(), mask, group=i, route=i % teachers) for i, line in enumerate(ids)]


def measure(args: argparse.Namespace, loss: str, folders: list[Path]) -> dict[int, dict[str, float]]:
    """Seconds and counters by number of teachers; `repeats` rounds, the numbers in turn, a first one to warm up."""
    gc.collect()
    settings = [Setting(n, folders, loss, args.minibatches) for n in args.teachers]
    vocabulary = settings[0].trainer.model.config.vocab_size
    alive = len(settings)
    for repeat in range(args.repeats + 1):
        for setting in settings:
            took = []
            for step in range(args.steps if repeat else 1):
                rows = rows_of(args.rows, args.row_tokens, setting.n, vocabulary, derive(repeat, step))
                took.append(setting.step(rows, derive(repeat, step)))
            if repeat:
                setting.seconds.append(statistics.median(clock for clock, _ in took))
                setting.cpu.append(statistics.median(cpu for _, cpu in took))
    return {
        s.n: {
            "seconds": statistics.median(s.seconds), "min": min(s.seconds), "max": max(s.seconds),
            "cpu": statistics.median(s.cpu),
            "loads_per_step": s.loads["weights"], "head_loads_per_step": s.loads["head"],
            # every setting of this process has one scorer and one student
            "resident": max(s.alive) - 2 * alive + 1,
        }
        for s in settings
    }  # fmt: skip


def derive(*parts: int) -> int:
    """A seed from small numbers."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teachers", type=int, nargs="+", default=[1, 2, 5, 10])
    parser.add_argument(
        "--loss", nargs="+", default=["reverse_kl", "k1_pg"], help="distillation terms, one after another"
    )
    parser.add_argument(
        "--rows", type=int, default=80, help="rollouts of a step; a multiple of every number of teachers"
    )
    parser.add_argument("--row-tokens", type=int, default=96)
    parser.add_argument("--minibatches", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6, help="steps whose median is one repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if any(args.rows % n for n in args.teachers):
        parser.error("--rows must be a multiple of every number of teachers")
    keep_freed_memory()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        folders = perturbed(Path(folder), max(args.teachers))
        found = {loss: measure(args, loss, folders) for loss in args.loss}
    if args.json:
        print(json.dumps({"tokens_per_step": args.rows * args.row_tokens, "losses": found}))
        return
    print(
        f"{args.rows} rows of {args.row_tokens} tokens a step, {args.minibatches} mini-batches, {args.repeats} repeats"
    )
    for loss, rows in found.items():
        for n, row in rows.items():
            print(
                f"{loss:10} {n:2} teachers: {row['seconds']:.3f} s ({row['min']:.3f} to {row['max']:.3f}), "
                f"CPU {row['cpu']:.3f} s, "
                f"loads of a teacher in a step {row['loads_per_step']}, of its head {row['head_loads_per_step']}, "
                f"most resident {row['resident']}"
            )
        first, last = min(rows), max(rows)
        ratio = rows[last]["seconds"] / rows[first]["seconds"]
        cpu = rows[last]["cpu"] / rows[first]["cpu"]
        verdict = "met" if ratio <= TARGET else "missed"
        print(
            f"{loss:10} {last} to {first}: {ratio:.2f} (target at most {TARGET}: {verdict}), by CPU seconds {cpu:.2f}"
        )


if __name__ == "__main__":
    main()
