"""The round: a model's own failures become the next model. This is the outer spine; read it top to bottom.

    rollout ─► pair ─► analyze ─► hint ─► resample ─► curate ─► phases ─► evaluate ─► gate ─► next round

Every stage turns finished artifacts into one artifact whose manifest is written last, so a run that died goes on at
the first artifact that is missing.
"""

from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path

from noria.core.memory import keep_freed_memory
from noria.core.recipe import Recipe
from noria.core.recipe_plugins import check_values
from noria.core.store import Run
from noria.stages import analyze, curate, gate, hint, pair, resample, rollout, teach, train
from noria.stages.checkpoint import of_model
from noria.stages.context import Context, struck_by
from noria.stages.evaluate import OUTCOMES, SCORES, collect, evaluate
from noria.stages.learning import FarLearner
from noria.stages.models import resolve_model
from noria.stages.scoring import Scorers
from noria.stages.worker import Pool, open_worlds
from noria.tokens.renderer import Renderer
from noria.trainers.local import BadStep
from noria.web.report import write_report


def run_recipe(recipe: Recipe, run: Run) -> None:
    """Run, or go on with, all rounds of a recipe in its run folder."""
    keep_freed_memory()
    check_values(recipe)
    weak = resolve_model(recipe.student.model)
    run.pin("student.model", recipe.student.model, of_model(weak))
    worlds, sandbox = open_worlds(recipe)
    struck = struck_by(recipe, worlds, run)
    renderer = Renderer.load(weak, recipe.student.call_form)
    pool = Pool(recipe, weak)
    scorers = None if isinstance(recipe.scorers, str) else Scorers(recipe.scorers, recipe.student.trainer)
    learner = None if isinstance(recipe.learner, str) else FarLearner(recipe.learner, recipe.student.trainer)
    try:
        for number in range(1, recipe.rounds + 1):
            ctx = Context(recipe, run, number, weak, worlds, renderer, pool, scorers, learner, struck)
            weak = run_round(ctx)
            write_report(run)
    finally:
        for service in (scorers, learner):
            if service is not None:
                service.close()
        pool.close()
        if sandbox is not None:
            sandbox.close()
    run.event("run_end", report=str(run.path / "report.html"))


def run_round(ctx: Context) -> Path:
    """One round; returns the folder of the next round's weak model."""
    teach.check_teachers(ctx)
    _evaluate_weak(ctx)
    rollout.run(ctx)
    pair.run(ctx)
    analyze.run(ctx)
    hint.run(ctx)
    resample.run(ctx)
    curate.run(ctx)
    models: list[train.Model] = []
    failure = ""
    for model, make in train.plan(ctx):
        try:
            make()
        except BadStep as fault:
            failure = f"{model.label}: {fault}"
            break
        gc.collect()
        evaluate(ctx, model.label, model.folder, model.worlds, unseen=model.label == "final")
        models.append(model)
    collect(ctx, ["weak", *(model.label for model in models)])
    # Where there is one world its expert is judged on all of them too, and is no candidate.
    whole = [model for model in models if not model.split]
    verdict = gate.refuse(ctx, failure) if failure else gate.run(ctx, whole[-1].label if whole else "weak")
    ctx.run.event("verdict", round=ctx.round, promoted=verdict.promoted, reason=verdict.reason)
    return whole[-1].folder if verdict.promoted else ctx.weak


def _evaluate_weak(ctx: Context) -> None:
    """Score the weak model; from the second round on it was scored before, under another name or round."""
    name = ctx.name("evaluate-weak")
    if ctx.run.done(name) or ctx.round == 1:
        evaluate(ctx, "weak", ctx.weak, list(ctx.worlds), unseen=True)
        return
    before = ctx.round - 1
    promoted = json.loads((ctx.run.folder(f"round-{before}/gate") / gate.VERDICT).read_text())["promoted"]
    source = f"round-{before}/evaluate-{'final' if promoted else 'weak'}"
    with ctx.run.artifact(name, inputs=[source], seed=ctx.recipe.seed) as work:
        folder = ctx.run.folder(source)
        scores = [score | {"model": "weak"} for score in json.loads((folder / SCORES).read_text())]
        (work.path / SCORES).write_text(json.dumps(scores, indent=1), encoding="utf-8")
        shutil.copyfile(folder / OUTCOMES, work.path / OUTCOMES)
        counts = ctx.run.manifest(source)["counts"]
        work.count_in(**counts["in"])
        work.count_out(**counts["out"])
