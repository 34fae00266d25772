"""What a recipe will do, in numbers (`plan` is data, `show` prints it), and what it needs of the environment."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria.core import registry
from noria.core.errors import UserError
from noria.core.recipe import Recipe
from noria.core.recipe_checks import measured, worlds_of
from noria.core.recipe_phases import Phase, Sampled, SftPhase
from noria.core.recipe_tables import Plug

HINT_ARMS = 3  # hinted, without a hint, with a hint from random marks


def check_engines(recipe: Recipe) -> None:
    """Every engine and teacher that the run will build must have what it needs of the environment, a key for one.

    A module may say so itself in `ready(config)`; a heavy module is not imported for it.

    Raises:
        UserError: something is missing; names the field, what is missing and the fix.
    """
    tables: dict[str, Plug] = {"student.engine": recipe.student.engine}
    tables |= {f"teachers.{name}": table for name, table in recipe.teachers.items()}
    if recipe.supervisor.type == "model" and recipe.supervisor.engine is not None:
        tables["supervisor.engine"] = recipe.supervisor.engine
    faults: list[str] = []
    for path, table in tables.items():
        if not registry.is_light(table.folder, table.type):
            continue
        ready = getattr(table.module(), "ready", None)
        try:
            if ready is not None:
                ready(table.config())
        except UserError as fault:
            faults.append(f"{path}.{fault}")
    if faults:
        raise UserError("\n".join(faults))


def plan(recipe: Recipe) -> dict[str, Any]:
    """The work of one round: rollouts per world, upper bounds of each stage, the arithmetic of each phase."""
    worlds = {name: _world(recipe, name) for name in recipe.env}
    arms = HINT_ARMS if recipe.hint.controls else 1
    return {
        "rounds": recipe.rounds,
        "worlds": worlds,
        "rollouts": sum(world["rollouts"] for world in worlds.values()),
        "analyze": {
            "pairs_per_world_max": recipe.supervisor.pairs,
            "continuations_per_pair_max": recipe.supervisor.replay_budget,
            "continuations_max": len(worlds) * recipe.supervisor.pairs * recipe.supervisor.replay_budget,
        },
        "resample": {
            "rollouts_max": len(worlds) * recipe.hint.tasks * recipe.hint.samples_per_task * arms,
            "arms": arms,
        },
        "phases": {name: arithmetic(recipe, name) for name in recipe.phase},
        "evaluate": {
            "tasks_per_world": recipe.gate.tasks,
            "rollouts_per_model": len(measured(recipe)) * recipe.gate.tasks * recipe.eval.samples_per_task,
        },
    }


def arithmetic(recipe: Recipe, name: str) -> dict[str, Any]:
    """Batch sizes of one phase, each saying what it counts."""
    phase: Phase = recipe.phase[name]
    worlds = worlds_of(recipe, phase)
    models = len(worlds) if phase.split_by == "env" else 1
    common = {"signal": phase.signal, "models": models, "worlds": worlds, "steps": phase.steps}
    if isinstance(phase, SftPhase):
        return {**common, "optimiser_steps": phase.steps, "tokens_per_step": phase.tokens_per_step}
    assert isinstance(phase, Sampled)
    rollouts = phase.prompts_per_step * phase.rollouts_per_prompt
    return {
        **common,
        "prompts_per_step": phase.prompts_per_step,
        "rollouts_per_prompt": phase.rollouts_per_prompt,
        "rollouts_per_step": rollouts,
        "rollouts_per_minibatch": rollouts // phase.minibatches,
        "optimiser_steps": phase.steps * phase.minibatches,
        "prompts": models * phase.steps * phase.prompts_per_step,
        "rollouts": models * phase.steps * rollouts,
    }


def show(recipe: Recipe, console: Console) -> None:
    """Print the plan."""
    data = plan(recipe)
    console.print(Text(f"recipe {recipe.name}, {recipe.rounds} rounds, seed {recipe.seed}: valid"))
    console.print(Text(f"fingerprint {recipe.fingerprint()}"))
    worlds = Table("world", "type", "tasks", "weak rollouts", "teacher rollouts", title="each round: dual track")
    for name, world in data["worlds"].items():
        row = (world["type"], world["tasks"], world["weak_rollouts"], world["teacher_rollouts"])
        worlds.add_row(name, *map(str, row))
    console.print(worlds)
    console.print("each round: training", style="italic")
    for name, row in data["phases"].items():
        console.print(Text(_phase_line(name, row)), soft_wrap=True)
    analyze, resample, evaluate = data["analyze"], data["resample"], data["evaluate"]
    console.print("each round: the other stages", style="italic")
    console.print(
        Text(
            f"analyze    at most {analyze['pairs_per_world_max']} pairs per world, "
            f"{analyze['continuations_per_pair_max']} continuations each\n"
            f"resample   at most {resample['rollouts_max']} rollouts in {resample['arms']} arm(s)\n"
            f"evaluate   {evaluate['tasks_per_world']} held-out tasks per world, "
            f"{evaluate['rollouts_per_model']} rollouts per model"
        )
    )


def _world(recipe: Recipe, name: str) -> dict[str, Any]:
    plug = recipe.env[name]
    tasks = plug.options.get("tasks")
    if not isinstance(tasks, int):
        return {"type": plug.type, "tasks": None, "weak_rollouts": 0, "teacher_rollouts": 0, "rollouts": 0}
    weak = tasks * recipe.rollout.samples_per_task
    playing = sum(not teacher.scores_tokens for teacher in recipe.teachers.values())
    teachers = tasks * recipe.rollout.teacher_samples_per_task * playing
    return {
        "type": plug.type, "tasks": tasks, "weak_rollouts": weak, "teacher_rollouts": teachers,
        "rollouts": weak + teachers,
    }  # fmt: skip


def _phase_line(name: str, row: dict[str, Any]) -> str:
    models = f"{row['models']} model{'s' if row['models'] > 1 else ''}"
    head = f"{name:<10} {row['signal']}, {models}, {row['steps']} steps"
    if row["steps"] == 0:
        return f"{head}: left out"
    if "rollouts_per_step" not in row:
        return f"{head} of {row['tokens_per_step']} tokens"
    parts = row["optimiser_steps"] // row["steps"]
    return (
        f"{head} of {row['prompts_per_step']} prompts x {row['rollouts_per_prompt']} = "
        f"{row['rollouts_per_step']} rollouts,\n{'':<11}in {parts} mini-batches of "
        f"{row['rollouts_per_minibatch']} rollouts: {row['optimiser_steps']} optimiser steps"
        f"{' each' if row['models'] > 1 else ''}, {row['rollouts']} rollouts in all"
    )
