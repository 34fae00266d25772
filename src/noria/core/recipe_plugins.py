"""Checks the plug-in tables of a recipe with the plug-ins' own `Config` and fills in their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from noria.core import registry
from noria.core.errors import UserError
from noria.core.recipe_phases import JointPhase, Phase, RlPhase, Sampled, SignalTable, advantage_of
from noria.core.recipe_report import describe_plugin, unknown_key
from noria.core.recipe_tables import LossTable, Plug, config_class, make_config

if TYPE_CHECKING:
    from noria.core.recipe import Recipe


def resolve(recipe: Recipe) -> tuple[dict[str, Any], list[str]]:
    """The recipe's tables with their plug-ins' defaults filled in, and every fault found.

    A module that needs a heavy package is not imported: only the names of its keys are checked, and its table
    stays as written.
    """
    faults: list[str] = []

    def fill(path: str, plug: Plug) -> Plug:
        options, lines = _filled(path, plug.folder, plug.type, plug.options)
        faults.extend(lines)
        return type(plug).model_validate({**options, **plug.model_dump(include=set(type(plug).model_fields))})

    def terms(path: str, phase: Phase) -> dict[str, LossTable]:
        out: dict[str, LossTable] = {}
        for name, table in phase.loss.items():
            options, lines = _filled(f"{path}.{name}", "losses", name, table.options)
            faults.extend(lines)
            out[name] = LossTable.model_validate({**options, "coef": table.coef})
        return out

    def signals(path: str, phase: Phase) -> dict[str, SignalTable]:
        out: dict[str, SignalTable] = {}
        for name, table in phase.use.items() if isinstance(phase, Sampled) else ():
            options, lines = _filled(f"{path}.{name}", "signals", table.module(name), table.options)
            faults.extend(lines)
            out[name] = SignalTable.model_validate({**options, "type": table.type})
        return out

    def phase_of(name: str, phase: Phase) -> Phase:
        update: dict[str, Any] = {"loss": terms(f"phase.{name}.loss", phase)}
        if isinstance(phase, Sampled):
            update["use"] = signals(f"phase.{name}.use", phase)
        if isinstance(phase, RlPhase | JointPhase):
            path = f"phase.{name}.advantage"
            options, lines = _filled(path, "signals", advantage_of(phase), phase.advantage.options)
            faults.extend(lines)
            update["advantage"] = SignalTable.model_validate({**options, "type": phase.advantage.type})
        return phase.model_copy(update=update)

    student = {
        "engine": fill("student.engine", recipe.student.engine),
        "trainer": fill("student.trainer", recipe.student.trainer),
    }
    resolved: dict[str, Any] = {
        "student": recipe.student.model_copy(update=student),
        "executor": fill("executor", recipe.executor),
        "learner": recipe.learner if isinstance(recipe.learner, str) else fill("learner", recipe.learner),
        "scorers": recipe.scorers if isinstance(recipe.scorers, str) else fill("scorers", recipe.scorers),
        "sandbox": fill("sandbox", recipe.sandbox),
        "teachers": {name: fill(f"teachers.{name}", plug) for name, plug in recipe.teachers.items()},
        "env": {name: fill(f"env.{name}", plug) for name, plug in recipe.env.items()},
        "phase": {name: phase_of(name, phase) for name, phase in recipe.phase.items()},
    }
    plugs = {"context": recipe.rollout.context, "harness": recipe.rollout.harness}
    filled = {name: fill(f"rollout.{name}", plug) for name, plug in plugs.items() if plug is not None}
    if filled:
        resolved["rollout"] = recipe.rollout.model_copy(update=filled)
    if recipe.supervisor.engine is not None:
        engine = fill("supervisor.engine", recipe.supervisor.engine)
        resolved["supervisor"] = recipe.supervisor.model_copy(update={"engine": engine})
    return resolved, faults


def check_values(recipe: Recipe) -> None:
    """Check the values too of plug-ins that are heavy to import, before any work is done for them.

    Raises:
        UserError: every value that the engine or the trainer of the student refuses.
    """
    faults: list[str] = []
    for path, plug in (("student.engine", recipe.student.engine), ("student.trainer", recipe.student.trainer)):
        try:
            plug.config()
        except ValidationError as fault:
            faults += describe_plugin(fault, path, config_class(plug.folder, plug.type))
    if faults:
        raise UserError("\n".join(faults))


def _filled(path: str, folder: str, name: str, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options with defaults, and faults. `path` is the dotted place of the table."""
    try:
        light = registry.is_light(folder, name)
        kind = config_class(folder, name) if light else None
    except UserError as fault:
        return options, [f"{path}.{fault}" if folder != "losses" else _unknown_loss(path, name)]
    if kind is None:
        fields = registry.config_fields(folder, name)
        return options, [unknown_key(key, path, fields) for key in options if fields and key not in fields]
    try:
        config = make_config(folder, name, options)
    except ValidationError as fault:
        return options, describe_plugin(fault, path, kind)
    return config.model_dump(mode="json"), []


def _unknown_loss(path: str, name: str) -> str:
    known = registry.names("losses")
    table = path.removesuffix(f".{name}")
    near = registry.nearest(name, known)
    return f"{table} must name losses: got {name!r}, expected one of {', '.join(known)}{near}"
