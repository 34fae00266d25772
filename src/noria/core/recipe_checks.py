"""Rules between the fields of a recipe; each message names the fields and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from noria.core import registry
from noria.core.errors import UserError
from noria.core.recipe_phases import DistillPhase, EfficiencyPhase, Sampled
from noria.core.recipe_report import describe_plugin, unknown_key
from noria.core.recipe_tables import Plug

if TYPE_CHECKING:
    from noria.core.recipe import Recipe


def problems(recipe: Recipe) -> list[str]:
    """What does not fit together, in the order of the file; empty when all is well."""
    found: list[str] = []
    found += _worlds(recipe, "gate.protected", recipe.gate.protected)
    if recipe.supervisor.type == "model" and recipe.supervisor.engine is None:
        found.append(
            'supervisor.type = "model" needs supervisor.engine - add engine = { type = "…" }, '
            'or set supervisor.type = "counterfactual"'
        )
    for name, phase in recipe.phase.items():
        path = f"phase.{name}"
        found += _worlds(recipe, f"{path}.envs", phase.envs)
        if not phase.loss:
            found.append(f"{path}.loss must name a loss: got none - write loss = {{ clipped = {{}} }}")
        if isinstance(phase, Sampled):
            found += _arithmetic(path, phase)
        if isinstance(phase, DistillPhase):
            found += _route(recipe, name, phase)
        if isinstance(phase, EfficiencyPhase) and phase.split_by:
            found.append(f'{path}.split_by must not be set with signal = "hmpo" - remove it')
    return found


def plugins(recipe: Recipe) -> tuple[dict[str, Any], list[str]]:
    """Validate every plug-in table with the plug-in's own `Config`.

    Returns the fields of the recipe with the plug-ins' defaults filled in, and the faults. A module that
    needs a heavy package is not imported: only the names of its keys are checked, and its table stays as written.
    """
    faults: list[str] = []

    def fill(path: str, plug: Any) -> Any:
        filled, lines = _plugin(path, plug)
        faults.extend(lines)
        return filled

    student = recipe.student.model_copy(
        update={
            "engine": fill("student.engine", recipe.student.engine),
            "trainer": fill("student.trainer", recipe.student.trainer),
        }
    )
    resolved: dict[str, Any] = {
        "student": student,
        "executor": fill("executor", recipe.executor),
        "sandbox": fill("sandbox", recipe.sandbox),
        "teachers": {name: fill(f"teachers.{name}", plug) for name, plug in recipe.teachers.items()},
        "env": {name: fill(f"env.{name}", plug) for name, plug in recipe.env.items()},
    }
    if recipe.supervisor.engine is not None:
        engine = fill("supervisor.engine", recipe.supervisor.engine)
        resolved["supervisor"] = recipe.supervisor.model_copy(update={"engine": engine})
    for name, phase in recipe.phase.items():
        for loss, table in phase.loss.items():
            faults.extend(_loss(f"phase.{name}.loss", loss, table.options))
    return resolved, faults


def _plugin(path: str, plug: Plug) -> tuple[Plug, list[str]]:
    try:
        if not registry.is_light(plug.folder, plug.type):
            return plug, _known_keys(path, plug.folder, plug.type, plug.options)
        kind = plug.config_class()
    except UserError as fault:
        return plug, [f"{path}.{fault}"]
    try:
        config = plug.config()
    except ValidationError as fault:
        return plug, describe_plugin(fault, path, kind)
    filled = {
        **config.model_dump(mode="json"),
        **plug.model_dump(mode="json", include={*type(plug).model_fields}),
    }
    return type(plug).model_validate(filled), []


def _known_keys(path: str, folder: str, name: str, options: dict[str, Any]) -> list[str]:
    fields = registry.config_fields(folder, name)
    if fields is None:
        return []
    return [unknown_key(key, path, fields) for key in options if key not in fields]


def _loss(path: str, name: str, options: dict[str, Any]) -> list[str]:
    try:
        return _known_keys(f"{path}.{name}", "losses", name, options)
    except UserError:
        known = registry.names("losses")
        near = registry.nearest(name, known)
        return [f"{path} must name losses: got {name!r}, expected one of {', '.join(known)}{near}"]


def _worlds(recipe: Recipe, path: str, worlds: list[str] | None) -> list[str]:
    found: list[str] = []
    for world in dict.fromkeys(worlds or []):
        if world not in recipe.env:
            near = registry.nearest(world, list(recipe.env))
            found.append(
                f"{path} must name worlds of [env]: got {world!r}, expected {_listed(recipe.env)}{near}"
            )
        if (worlds or []).count(world) > 1:
            found.append(f"{path} must name each world once: got {world!r} twice - remove one")
    return found


def _arithmetic(path: str, phase: Sampled) -> list[str]:
    rollouts = phase.prompts_per_step * phase.rollouts_per_prompt
    if rollouts % phase.minibatches == 0:
        return []
    fitting = [k for k in range(1, rollouts + 1) if rollouts % k == 0]
    best = min(fitting, key=lambda k: abs(k - phase.minibatches))
    return [
        f"{path}.prompts_per_step * {path}.rollouts_per_prompt must divide by {path}.minibatches: got "
        f"{phase.prompts_per_step} * {phase.rollouts_per_prompt} = {rollouts} and {phase.minibatches} - "
        f"set minibatches = {best}"
    ]


def _route(recipe: Recipe, name: str, phase: DistillPhase) -> list[str]:
    path = f"phase.{name}.route"
    order = list(recipe.phase)
    earlier = [other for other in order[: order.index(name)] if recipe.phase[other].split_by]
    if phase.route in earlier:
        return []
    if phase.route in recipe.phase and phase.route not in recipe.teachers:
        if order.index(phase.route) >= order.index(name):
            return [
                f"{path} must name an earlier phase: got {phase.route!r} - move phase.{phase.route} above it"
            ]
        return [
            f"{path} names phase.{phase.route}, which trains one model - set phase.{phase.route}.split_by"
            ' = "env"'
        ]
    if phase.route in recipe.teachers:
        return _scoring_teacher(recipe, path, phase.route)
    routes = earlier + [teacher for teacher in recipe.teachers if _scores(recipe, teacher)]
    return [
        f"{path} must name an earlier phase with split_by, or a teacher that scores tokens: "
        f"got {phase.route!r}, expected {_listed(routes)}{registry.nearest(phase.route, routes)}"
    ]


def _scoring_teacher(recipe: Recipe, path: str, teacher: str) -> list[str]:
    if _scores(recipe, teacher):
        return []
    kind = recipe.teachers[teacher].type
    return [
        f"{path} = {teacher!r} cannot be used: teachers.{teacher}.type = {kind!r} cannot score tokens - "
        "route to a phase with split_by, or to a teacher backed by an engine"
    ]


def _scores(recipe: Recipe, teacher: str) -> bool:
    try:
        return recipe.teachers[teacher].scores_tokens
    except UserError:
        return False  # an unknown type of teacher is reported where plug-ins are checked


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "none exists"
