"""What masking erroneous turns is worth: supervised training on solved work with errors in it, three ways.

    python bench/error_masks.py [--seeds 0,1,2] [--out runs/error-masks] [--small]

From builtin:tiny, on training tasks of `microswe`, solved by scripted policies: 3 in 10 without an error, 4 in 10 with
a wrong edit that tests showed and that was taken back or corrected, 3 in 10 with a call that is refused. `unmasked`
trains on all that was said; `refused` and `rules` mask what those rules call an error; `dropped` leaves out what holds
an error. All arms take the same steps with the same learning rate. Measured on held-out tasks: the share solved, and of
100 turns how many were wrong by the world's own judgement. One line of JSON per arm and seed; a line that is there is
not measured again. One process, one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from noria.core.recipe import of_world
from noria.core.recipe_phases import SftPhase
from noria.core.seeds import derive
from noria.core.types import Message, Task, Trajectory
from noria.envs import microswe
from noria.envs.microswe.mistakes import mistakes
from noria.envs.microswe.trusted import TrustedRunner
from noria.models.weights import read
from noria.stages import masking
from noria.stages import rows as rows_of
from noria.stages.evaluate import heldout_jobs
from noria.stages.loop import build_terms, schedule
from noria.stages.models import resolve_model
from noria.stages.roller import Job, Limits, Roller
from noria.stages.train import batches
from noria.stages.worker import Load, RolloutService, Setup
from noria.tokens.renderer import Renderer
from noria.trainers import local
from noria.trainers.rows import Row

ARMS = ("unmasked", "refused", "rules", "dropped")
SHARES = {"clean": 0.3, "wrong": 0.4, "refused": 0.3}
REFUSED: tuple[masking.labels.Fault, ...] = ("unknown_tool", "missing_argument", "unclosed")
RESULTS = "results.jsonl"


class Slipping:
    """microswe with a policy more: an expert that first says a spoilt form of one of its calls."""

    def __init__(self, world: Any) -> None:
        self.world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def policy(self, task: Task, strategy: str, seed: int) -> Callable[[Sequence[Message]], str]:
        """`slip` is new, all else is the world's."""
        if strategy != "slip":
            return cast("Callable[[Sequence[Message]], str]", self.world.policy(task, strategy, seed))
        rng = np.random.default_rng(seed % (1 << 63))
        expert = self.world.policy(task, str(rng.choice(self.world.experts)), seed)
        fault, at = REFUSED[int(rng.integers(len(REFUSED)))], int(rng.integers(0, 3))

        def play(messages: Sequence[Message]) -> str:
            said = sum(message.role == "assistant" for message in messages)
            if said <= at:
                message = expert(messages)
                return (masking.spoil(message, fault, rng) or message) if said == at else message
            return str(expert([*messages[: 2 * at], *messages[2 * at + 2 :]]))

        return play


def lessons(renderer: Renderer, n: int, seed: int) -> list[Trajectory]:
    """Solved trajectories of so many training tasks."""
    runner = cast(Any, TrustedRunner())
    world = Slipping(microswe.build(microswe.Config(type="microswe"), runner))
    roller = Roller({"microswe": cast(Any, world)}, renderer, None, Limits(), 1)
    rng = np.random.default_rng(derive(seed, "lessons") % (1 << 63))
    found = []
    for task in world.tasks("train", n, seed):
        kind = str(rng.choice(list(SHARES), p=list(SHARES.values())))
        habits = {"clean": list(world.experts), "wrong": ["recover"], "refused": ["slip"]}[kind]
        strategy = habits[int(rng.integers(len(habits)))]
        job = Job(f"{task.id}/{strategy}", task, derive(seed, task.id), strategy, source=f"teacher:{strategy}")
        found.append(roller.play(job))
    return [t for t in found if t.solved]


def rows(arm: str, found: Sequence[Trajectory]) -> list[Row]:
    """The rows of one arm."""
    if arm == "dropped":
        found = [t for t in found if not any(masking.errors(t.turns, masking.CODE))]
    rules = {"unmasked": (), "refused": ("refused",), "rules": masking.CODE, "dropped": ()}[arm]
    return rows_of.kept([rows_of.supervised(t, bool(rules), rules) for t in found])


def train(given: list[Row], folder: Path, base: Path, phase: SftPhase, seed: int) -> None:
    """Supervised steps from `base` to `folder`."""
    trainer = local.build(local.Config(alone_threads=1), base)
    trainer.use_threads(1)
    trainer.configure(phase.lr, phase.betas, phase.weight_decay, phase.grad_norm)
    terms, stream = build_terms(phase), batches(given, phase.tokens_per_step, derive(seed, "order"))
    for step in range(phase.steps):
        trainer.set_lr(phase.lr * schedule(phase, step))
        trainer.step(next(stream), terms, {"ce": 1.0}, 1.0, phase.tokens_per_micro_batch)
    folder.mkdir(parents=True, exist_ok=True)
    trainer.save(folder, base)


def measured(folder: Path, n: int, seed: int) -> dict[str, float]:
    """Share of held-out tasks solved, turns of a rollout, and wrong ones of 100 turns."""
    recipe = of_world("microswe")
    service = RolloutService(Setup(recipe.resolved_json(), str(folder)))
    world = service.worlds["microswe"]
    ended: list[Trajectory] = []
    try:
        limits = Limits.of(recipe.rollout, recipe.eval)
        service.receive(Load(read(folder), 0, recipe.eval.temperature, limits))
        service.receive(heldout_jobs(world.tasks("heldout", n, seed), seed, 1))
        while service.busy():
            ended += [each for each in service.work() if isinstance(each, Trajectory)]
    finally:
        service.close()
    found = [t for t in ended if t.outcome.known]
    turns = sum(len(t.turns) for t in found)
    wrong = sum(map(bool, (label for t in found for label in judged(t))))
    ruled = sum(sum(masking.errors(t.turns, masking.CODE)) for t in found)
    return {
        "solved": round(float(np.mean([t.solved for t in found])), 4), "n": len(found),
        "turns": round(turns / len(found), 2), "wrong_of_100": round(100 * wrong / turns, 2),
        "masked_of_100": round(100 * ruled / turns, 2),
    }  # fmt: skip


def judged(t: Trajectory) -> list[str]:
    """Labels of a model's turns; a file that the model wrote is right where it is the one without the bug."""
    return mistakes(t.task, lambda text: text == t.task.data["gold"], [turn.message for turn in t.turns])


def one(arm: str, seed: int, given: argparse.Namespace, base: Path) -> dict[str, Any]:
    """Train and measure one arm."""
    began, used = time.monotonic(), time.process_time()
    facts: Mapping[str, Any] = {}
    folder = base
    if arm != "before":
        found = lessons(Renderer.load(base), given.lessons, seed)
        made = rows(arm, found)
        facts = {"rows": len(made), "of": len(found), "loss_tokens": int(sum(row.mask.sum() for row in made))}
        folder = given.out / f"{arm}-{seed}"
        phase = SftPhase(signal="curated", steps=given.steps, lr=given.lr, tokens_per_step=given.tokens_per_step)
        train(made, folder, base, phase, seed)
    return {
        "arm": arm, "seed": seed, **facts, **measured(folder, given.tasks, seed),
        "seconds": round(time.monotonic() - began, 1), "cpu_s": round(time.process_time() - used, 1),
    }  # fmt: skip


def main() -> None:
    """One line of JSON per arm and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/error-masks"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(("before", *ARMS)))
    parser.add_argument("--lessons", type=int, default=240, help="training tasks")
    parser.add_argument("--steps", type=int, default=24, help="optimiser steps of each arm")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--tokens-per-step", type=int, default=3072)
    parser.add_argument("--tasks", type=int, default=200, help="held-out tasks")
    parser.add_argument("--small", action="store_true", help="a few steps and tasks: does it run at all")
    given = parser.parse_args()
    if given.small:
        given.lessons, given.steps, given.tasks = 24, 3, 16
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / RESULTS
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(line["arm"], line["seed"]): line for line in lines}
    base = resolve_model("builtin:tiny")
    for seed in map(int, given.seeds.split(",")):
        for arm in given.arms.split(","):
            if (arm, seed) not in done:
                done[arm, seed] = one(arm, seed, given, base)
                with path.open("a") as file:
                    file.write(json.dumps(done[arm, seed]) + "\n")
            print(json.dumps(done[arm, seed]), flush=True)


if __name__ == "__main__":
    main()
