"""Rules about the order and the names of a recipe's phases; each message names the fields and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noria.core.recipe_phases import Distilled, RlPhase, Sampled, SftPhase

if TYPE_CHECKING:
    from noria.core.recipe import Recipe

#: Folders that a round's stages make beside those of its phases.
STAGES = ("rollout", "pair", "analyze", "hint", "resample", "curate", "evaluate", "gate")


def order(recipe: Recipe) -> list[str]:
    """What cannot be right in names and order; empty when all is well."""
    found = _names(recipe) + _services(recipe)
    for name, phase in recipe.phase.items():
        path = f"phase.{name}"
        if isinstance(phase, Sampled) and 0 < phase.steps < phase.max_staleness:
            found.append(
                f"{path}.max_staleness must not exceed {path}.steps: got {phase.max_staleness} and {phase.steps} - set "
                f"max_staleness = {phase.steps}"
            )
        if isinstance(phase, Sampled) and phase.actors is not None:
            found += _actors(recipe, path, phase.actors)
        if isinstance(phase, RlPhase):
            found += _groups(recipe, path, phase)
        if isinstance(phase, Distilled) and isinstance(phase.route, str):
            found += _ambiguous(recipe, path, phase.route)
    return found


def _services(recipe: Recipe) -> list[str]:
    """One process trains."""
    workers = 1 if isinstance(recipe.learner, str) else recipe.learner.options["workers"]
    if workers == 1:
        return []
    return [f"learner.workers must be 1: got {workers}, and one process trains - set learner.workers = 1"]


def _names(recipe: Recipe) -> list[str]:
    """A phase's name is a folder of the round, and its model's scores have one too."""
    split = [name for name, phase in recipe.phase.items() if phase.split_by]
    scored = {f"{kind}-{world}" for kind in ("expert", *split) for world in recipe.env} if split else set()
    return [
        f"[phase] names must not be those of other folders of a round: got {name!r} - rename it"
        for name in recipe.phase
        if name in STAGES or name.startswith("evaluate-") or name in scored
    ]


def _groups(recipe: Recipe, path: str, phase: RlPhase) -> list[str]:
    found: list[str] = []
    if phase.rollouts_per_prompt < 2 and phase.steps:
        found.append(
            f'{path}.rollouts_per_prompt must be at least 2 with signal = "{phase.signal}": got '
            f"{phase.rollouts_per_prompt}, which leaves a rollout nothing to be compared with - set it to 8"
        )
    if phase.sft_steps and not any(isinstance(other, SftPhase) for other in recipe.phase.values()):
        found.append(
            f'{path}.sft_steps takes its settings from a phase with signal = "curated", and there is none: got '
            f"{phase.sft_steps} - add one (steps = 0 leaves it out itself), or set sft_steps = 0"
        )
    return found


def _actors(recipe: Recipe, path: str, actors: int) -> list[str]:
    """No more workers may sample than the executor has, as far as the recipe says how many these are."""
    workers = recipe.executor.options.get("workers")
    if not isinstance(workers, int) or actors <= workers:
        return []
    return [
        f"{path}.actors must not exceed executor.workers: got {actors} and {workers} - set actors = {workers}, or "
        f"executor.workers = {actors}"
    ]


def _ambiguous(recipe: Recipe, path: str, route: str) -> list[str]:
    if route not in recipe.teachers or route not in recipe.phase:
        return []
    return [f"{path}.route must name one thing: {route!r} is a phase and a teacher - rename one of them"]
