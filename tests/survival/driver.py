"""Processes to kill: this one imports everything once, and each phase then runs in a fork of it.

It reads one JSON order a line (`Order`), answers with the pid of the process that carries it out, and, once that has
ended, with its exit status (negative = killed by that signal).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch

from noria.core.errors import NoriaError
from noria.core.recipe_phases import SftPhase
from noria.core.store import Run
from noria.engines.embedded import Config as EngineConfig
from noria.engines.embedded import EmbeddedEngine
from noria.losses import ce
from noria.stages.checkpoint import STATE, Keeper, Origin, of_model, of_rows
from noria.stages.context import Context
from noria.stages.train import fine_tune, make
from noria.stages.worker import Pool, open_worlds
from noria.tokens.renderer import Renderer
from noria.trainers.local import Config, build
from noria.trainers.rows import Row

PHASE = "toss"


@dataclass(frozen=True)
class Order:
    """Make the phase of the recipe in this run folder. `die_at` = the how-manieth write to disk kills the process."""

    run: str
    phase: str = PHASE
    model: str = ""
    die_at: int = 0


def carry_out(order: Order) -> None:
    """Make the phase, or go on with it."""
    run = Run.open(order.run)
    recipe = run.recipe()
    base = Path(order.model or recipe.student.model)
    if order.die_at:
        die_at(order.die_at)
    with run.lock():
        if isinstance(recipe.phase[order.phase], SftPhase):
            supervised(run, base, recipe.phase[order.phase], recipe.seed)
            return
        worlds, _ = open_worlds(recipe)
        pool = Pool(recipe, base)
        try:
            ctx = Context(recipe, run, 1, base, worlds, Renderer.load(base), pool)
            make(ctx, order.phase, recipe.phase[order.phase], base, list(worlds), {})
        finally:
            pool.close()


def supervised(run: Run, base: Path, phase: SftPhase, seed: int) -> None:
    """A supervised phase on rows of its own, without the stages that usually make them."""
    rows = [Row.plain([7 + (i * k) % 50 for k in range(1, 9)], [0, 0] + [1] * 6) for i in range(1, 12)]
    with run.artifact("round-1/sft", resumable=True, scratch=(STATE,)) as work:
        trainer = build(Config(line_tokens=32), base)
        fine_tune(Keeper(work, "round-1/sft", Origin(of_model(base), of_rows(rows))), seed, trainer, rows, phase)
        trainer.save(work.path, base)


def die_at(count: int) -> None:
    """Kill this process before its `count`-th flush or renaming of a file."""
    left = [count]

    def dying(real):
        def call(*arguments, **options):
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    os.replace, os.fsync = dying(os.replace), dying(os.fsync)


def warm(model: Path) -> None:
    """Import what the first use of each part imports, so that a fork need not."""
    Renderer.load(model)
    trainer = build(Config(line_tokens=32), model)
    trainer.configure(1e-3, (0.9, 0.99), 0.0, 1.0)
    trainer.step([Row.plain([1, 2, 3], [0, 1, 1])], {"ce": ce.build(ce.Config())}, {"ce": 1.0})
    EmbeddedEngine(trainer.model, [1], EngineConfig(slots=1))


def serve() -> None:
    """Carry out orders, one after the other."""
    for line in sys.stdin:
        order = Order(**json.loads(line))
        pid = os.fork()
        if not pid:
            code = 1
            try:
                with (Path(order.run) / "output.txt").open("a") as out:
                    os.dup2(out.fileno(), 1)
                    os.dup2(out.fileno(), 2)
                carry_out(order)
                code = 0
            except NoriaError as fault:
                code = 2
                (Path(order.run) / "fault.txt").write_text(f"{type(fault).__name__}: {fault}")
            finally:
                if sys.exc_info()[0] is not None:
                    traceback.print_exc()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warm(Path(sys.argv[1]))
    serve()
