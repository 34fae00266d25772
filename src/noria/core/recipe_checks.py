"""Rules between the fields of a recipe; each message names the fields and the fix."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from noria.core import registry
from noria.core.errors import UserError
from noria.core.order_checks import order
from noria.core.phase_checks import said
from noria.core.recipe_phases import Distilled, EfficiencyPhase, JointPhase, Optimised, Sampled
from noria.core.recipe_tables import EngineTable, ExecutorTable

if TYPE_CHECKING:
    from noria.core.recipe import Recipe


#: Tasks that a phase may draw: they are made before it begins.
MOST_GROUPS = 10**7
#: Letters of a name: several of them make up the name of a file.
LONGEST = 64
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*$")


def problems(recipe: Recipe) -> list[str]:
    """What does not fit together, in the order of the file; empty when all is well."""
    found = _names(recipe) + _supervisor(recipe) + _engine(recipe) + _harness(recipe) + _gate(recipe) + order(recipe)
    for name, phase in recipe.phase.items():
        path = f"phase.{name}"
        found += _worlds(recipe, f"{path}.envs", phase.envs)
        if phase.envs == []:
            found.append(f"{path}.envs must name a world: got [] - leave it out for all worlds")
        if not phase.loss:
            found.append(f"{path}.loss must name a loss: got none - leave it out for the default")
        if isinstance(phase, Sampled):
            found += _arithmetic(path, phase)
        if isinstance(phase, Distilled):
            found += _route(recipe, name, phase) + _teachers(recipe, name, phase) + _auxiliary(recipe, path, phase)
        if isinstance(phase, EfficiencyPhase) and phase.split_by:
            found.append(f'{path}.split_by must not be set with signal = "hmpo" - remove it')
    return found


def worlds_of(recipe: Recipe, phase: Optimised) -> list[str]:
    """The worlds that a phase draws from, in the order of [env] or as written."""
    return list(recipe.env) if phase.envs is None else phase.envs


def measured(recipe: Recipe) -> list[str]:
    """The worlds whose held-out tasks are played, in the order of [env] or as written."""
    return list(recipe.env) if recipe.gate.worlds is None else recipe.gate.worlds


def _gate(recipe: Recipe) -> list[str]:
    """Worlds of the gate, and experts that nothing would measure."""
    found = _worlds(recipe, "gate.worlds", recipe.gate.worlds) + _worlds(
        recipe, "gate.protected", recipe.gate.protected
    )
    if recipe.gate.worlds == []:
        found.append("gate.worlds must name a world: got [] - leave it out for all worlds")
    known = measured(recipe)
    for world in recipe.gate.protected or ():
        if world in recipe.env and world not in known:
            found.append(f"gate.protected must be of gate.worlds: got {world} - add it there, or leave it out here")
    for name, phase in recipe.phase.items():
        if phase.split_by:
            for world in worlds_of(recipe, phase):
                if world in recipe.env and world not in known:
                    found.append(f"phase.{name}.envs must be of gate.worlds with split_by: got {world} - add it there")
    return found


def _names(recipe: Recipe) -> list[str]:
    """Names of tables become folders and parts of model names."""
    tables = (("env", recipe.env), ("teachers", recipe.teachers), ("phase", recipe.phase))
    long = [
        f"{where} must have at most {LONGEST} letters, it names files: got {len(name)}, {name[:20]!r}… - shorten it"
        for where, names in (("name", [recipe.name]), *((f"[{table}] names", names) for table, names in tables))
        for name in names
        if len(name) > LONGEST
    ]
    return long + [
        f"[{table}] names must begin with a letter and hold letters, digits, '_' and '-' only: got {name!r}"
        for table, names in tables
        for name in names
        if not _NAME.match(name)
    ]


def _supervisor(recipe: Recipe) -> list[str]:
    found: list[str] = []
    table = recipe.supervisor
    if table.type == "model" and table.engine is None:
        found.append(
            'supervisor.type = "model" needs supervisor.engine - add engine = { type = "…" }, '
            'or set supervisor.type = "counterfactual"'
        )
    if table.engine is not None and _says(table.engine, "CHATS") is False:
        found.append(
            f"supervisor.engine.type must be an engine that chats: got {table.engine.type!r}, expected "
            f"{_listed(_chatting())} - set supervisor.engine = "
            '{ type = "openai", base_url = "…", model = "…" }'
        )
    if table.replay_budget < 2 * table.continuations:
        found.append(
            "supervisor.replay_budget must be at least twice supervisor.continuations (before and after one "
            f"action): got {table.replay_budget} and {table.continuations} - set replay_budget = "
            f"{2 * table.continuations}"
        )
    return found


def _engine(recipe: Recipe) -> list[str]:
    engine = recipe.student.engine
    longest = engine.options.get("max_tokens", _constant(engine, "MAX_TOKENS"))
    found: list[str] = []
    if _says(recipe.student.engine, "SAMPLES_TOKENS", otherwise=True) is False:
        found.append(
            f"student.engine.type must be an engine that samples tokens: got {recipe.student.engine.type!r}, "
            'which gives text only - set student.engine = { type = "embedded" }'
        )
    workers = _workers(recipe.executor) if _says(engine, "ONE_WORKER") else 1
    if workers > 1:
        found.append(
            f"executor.workers must be 1 with student.engine.type = {engine.type!r}, which has one server for all: got "
            f"{workers} - set executor.workers = 1"
        )
    for path, limit in (("rollout", recipe.rollout.max_tokens), ("eval", recipe.eval.max_tokens)):
        if isinstance(longest, int) and limit > longest:
            found.append(
                f"{path}.max_tokens must not exceed student.engine.max_tokens: got {limit} and {longest} - "
                f"set {path}.max_tokens = {longest}, or raise the engine's"
            )
    return found


def _harness(recipe: Recipe) -> list[str]:
    """A harness of somebody else's keeps its own contexts, and talks to the embedded engine alone."""
    found: list[str] = []
    if recipe.rollout.harness is None:
        return found
    if recipe.rollout.context is not None:
        found.append("rollout.context must not be set with rollout.harness, which has its own - remove one of them")
    if recipe.student.engine.type != "embedded":
        found.append(
            f"student.engine.type must be embedded with rollout.harness: got {recipe.student.engine.type!r} - "
            "leave one of them out"
        )
    return found


def _says(engine: EngineTable, key: str, otherwise: bool = False) -> bool | None:
    """What the engine's module says of itself, `otherwise` where it is silent; None for an unknown type."""
    try:
        said = registry.constant(engine.folder, engine.type, key)
    except UserError:
        return None  # reported where plug-ins are checked
    return otherwise if said is None else said is True


def _workers(executor: ExecutorTable) -> int:
    """How many workers there will be; 1 where the table cannot tell, or is reported elsewhere."""
    try:
        found = executor.config().model_dump().get("workers", 1)
    except (UserError, ValidationError):
        return 1
    return found if isinstance(found, int) else 1


def _constant(engine: EngineTable, key: str) -> object | None:
    """A constant of the engine's module, None where there is none."""
    try:
        return registry.constant(engine.folder, engine.type, key)
    except UserError:
        return None


def _chatting() -> list[str]:
    return [name for name in registry.names("engines") if registry.constant("engines", name, "CHATS") is True]


def _worlds(recipe: Recipe, path: str, worlds: list[str] | None) -> list[str]:
    found: list[str] = []
    for world in dict.fromkeys(worlds or []):
        if world not in recipe.env:
            near = registry.nearest(world, list(recipe.env))
            found.append(f"{path} must name worlds of [env]: got {world!r}, expected {_listed(recipe.env)}{near}")
        if (worlds or []).count(world) > 1:
            found.append(f"{path} must name each world once: got {world!r} twice - remove one")
    return found


def _arithmetic(path: str, phase: Sampled) -> list[str]:
    groups = phase.steps * phase.prompts_per_step * (1 + phase.max_refills)
    if groups > MOST_GROUPS:
        return [
            f"{path}.steps * {path}.prompts_per_step * (1 + {path}.max_refills) must be at most {MOST_GROUPS}, the "
            f"tasks that are drawn: got {groups} - lower steps"
        ]
    table = phase.validation
    if table is not None and table.tasks * table.rollouts > MOST_GROUPS:
        return [
            f"{path}.validation.tasks * {path}.validation.rollouts must be at most {MOST_GROUPS}, the rollouts of one "
            f"validation: got {table.tasks} * {table.rollouts} - lower one"
        ]
    rollouts = phase.prompts_per_step * phase.rollouts_per_prompt
    if rollouts % phase.minibatches == 0:
        return []
    # The nearest divisor, sought outwards; counts can be huge, so not for ever.
    most = min(phase.minibatches, rollouts)
    near = (k for step in range(min(most, 10_000)) for k in (most - step, most + step) if rollouts % k == 0)
    best = next(near, 1)
    return [
        f"{path}.prompts_per_step * {path}.rollouts_per_prompt must divide by {path}.minibatches: got "
        f"{phase.prompts_per_step} * {phase.rollouts_per_prompt} = {rollouts} and {phase.minibatches} - "
        f"set minibatches = {best}"
    ]


def _route(recipe: Recipe, name: str, phase: Distilled) -> list[str]:
    path = f"phase.{name}.route"
    if isinstance(phase.route, dict):
        return _table(recipe, path, phase, phase.route)
    names = list(recipe.phase)
    earlier = [other for other in names[: names.index(name)] if recipe.phase[other].split_by]
    if phase.route in earlier:
        return _experts(recipe, name, phase, phase.route)
    if phase.route in recipe.phase and phase.route not in recipe.teachers:
        if names.index(phase.route) >= names.index(name):
            return [f"{path} must name an earlier phase: got {phase.route!r} - move phase.{phase.route} above it"]
        return [f'{path} names phase.{phase.route}, which trains one model - set phase.{phase.route}.split_by = "env"']
    if phase.route in recipe.teachers:
        return _scoring_teacher(recipe, path, phase.route)
    routes = earlier + [teacher for teacher in recipe.teachers if _scores(recipe, teacher)]
    return [
        f"{path} must name an earlier phase with split_by, or a teacher that scores tokens: "
        f"got {phase.route!r}, expected {_listed(routes)}{registry.nearest(phase.route, routes)}"
    ]


def _table(recipe: Recipe, path: str, phase: Distilled, route: dict[str, str]) -> list[str]:
    """A table of world = teacher names every world of the phase, and teachers that score tokens.

    Further keys are routes that tasks name.
    """
    worlds = worlds_of(recipe, phase)
    found = [
        f"{path} must name a teacher for each world: none for {world!r}, got {_listed(route)} - add one"
        for world in worlds
        if world not in route
    ]
    for world, teacher in route.items():
        if teacher in recipe.teachers:
            found += _scoring_teacher(recipe, f"{path}.{world}", teacher)
        else:
            near = registry.nearest(teacher, list(recipe.teachers))
            found.append(
                f"{path}.{world} must name a teacher: got {teacher!r}, expected {_listed(recipe.teachers)}{near}"
            )
    return found


def _teachers(recipe: Recipe, name: str, phase: Distilled) -> list[str]:
    """Joint weights name what the route leads to; no teacher has another vocabulary; something is trained."""
    found: list[str] = []
    path = f"phase.{name}"
    known = list(phase.route.values()) if isinstance(phase.route, dict) else worlds_of(recipe, phase)
    known = [phase.route] if isinstance(phase.route, str) and phase.route in recipe.teachers else known
    for teacher, weight in phase.teacher_weights.items():
        if teacher not in known:
            near = registry.nearest(teacher, known)
            found.append(
                f"{path}.teacher_weights must name what the route leads to: got {teacher!r}, "
                f"expected {_listed(known)}{near}"
            )
        if weight <= 0:
            found.append(f"{path}.teacher_weights.{teacher} must be > 0: got {weight} - leave the teacher out instead")
    for teacher in sorted(set(phase.route.values()) if isinstance(phase.route, dict) else {phase.route}):
        found += _vocabulary(recipe, teacher) + _states(recipe, path, phase, teacher)
    if isinstance(phase, JointPhase) and not (phase.alpha or phase.beta or phase.use):
        found.append(f"{path}.alpha and {path}.beta must not both be 0: nothing would be trained - set one")
    return found


def _states(recipe: Recipe, path: str, phase: Distilled, teacher: str) -> list[str]:
    """A loss over the vocabulary needs a teacher whose hidden states, or likeliest tokens, are at hand."""
    if teacher not in recipe.teachers or said("teachers", recipe.teachers[teacher].type, "GIVES_STATES"):
        return []
    found: list[str] = []
    kind, options = recipe.teachers[teacher].type, recipe.teachers[teacher].options
    if phase.teacher_temperature != 1:
        found.append(
            f"{path}.teacher_temperature must be 1 with teachers.{teacher}, a teacher of type {kind!r}: got "
            f"{phase.teacher_temperature}, and a server scores at 1 - leave it out"
        )
    tells_top = said("teachers", kind, "GIVES_TOP") is True
    for name, table in phase.loss.items():
        if said("losses", name, "FAMILY") != "opd" or said("losses", name, "ON_POLICY"):
            continue
        wanted = said("losses", name, "FROM_TOP")
        if not tells_top or not isinstance(wanted, dict):
            gives = "its likeliest tokens" if tells_top else "log-probabilities of sampled tokens"
            instead = "forward_kl_topk, k1_pg or kl_teacher" if tells_top else "k1_pg or kl_teacher"
            found.append(
                f"{path}.loss.{name} needs the hidden states of teachers.{teacher}, and a teacher of type {kind!r} "
                f"gives {gives} only - use {instead}"
            )
            continue
        found += [
            f"{path}.loss.{name}.{key} must be {value!r} with teachers.{teacher}, which knows its own likeliest tokens "
            f'alone - set {key} = "{value}"'
            for key, value in wanted.items()
            if table.options.get(key) != value
        ]
        if options.get("ask") == "echo":
            found.append(
                f"teachers.{teacher}.ask must be 'prompt_logprobs' for {path}.loss.{name}: an echo names no other "
                'tokens - set ask = "prompt_logprobs"'
            )
    return found


def _auxiliary(recipe: Recipe, path: str, phase: Distilled) -> list[str]:
    """A second policy is a model of the student's vocabulary, held by a trainer that can train two."""
    if phase.auxiliary is None:
        return []
    found: list[str] = []
    if recipe.student.trainer.type != "local":
        found.append(
            f'{path}.auxiliary needs student.trainer.type = "local", which trains two policies: got '
            f"{recipe.student.trainer.type!r} - set it, or remove auxiliary"
        )
    model = phase.auxiliary.model
    return found if model == "weak" else found + _other_words(recipe, f"{path}.auxiliary.model", _folder(model))


def _vocabulary(recipe: Recipe, teacher: str) -> list[str]:
    """A frozen teacher must have the student's vocabulary."""
    path = recipe.teachers[teacher].options.get("path") if teacher in recipe.teachers else None
    return [] if path is None else _other_words(recipe, f"teachers.{teacher}.path", Path(str(path)))


def _folder(model: str) -> Path:
    return registry.ROOT / "data" / model.removeprefix("builtin:") if model.startswith("builtin:") else Path(model)


def _other_words(recipe: Recipe, path: str, folder: Path) -> list[str]:
    """Two models of one vocabulary; compared where both tokenizers' files are here."""
    files = [home / "tokenizer.json" for home in (_folder(recipe.student.model), folder)]
    if not all(file.is_file() for file in files):
        return []
    mine, theirs = (_tokens(file) for file in files)
    if mine == theirs:
        return []
    alone = len(mine.keys() ^ theirs.keys())
    moved = sum(mine[token] != theirs[token] for token in mine.keys() & theirs.keys())
    return [
        f"{path} must hold a model of the student's vocabulary: {alone} tokens are of one alone, "
        f"{moved} have another id - choose a model with the student's tokenizer"
    ]


def _tokens(file: Path) -> dict[str, int]:
    data = json.loads(file.read_text(encoding="utf-8"))
    vocab = data["model"]["vocab"]
    found = dict(vocab) if isinstance(vocab, dict) else {token: i for i, (token, *_) in enumerate(vocab)}
    return found | {added["content"]: added["id"] for added in data.get("added_tokens", [])}


def _experts(recipe: Recipe, name: str, phase: Distilled, route: str) -> list[str]:
    """The routed phase must train an expert for each world that is distilled."""
    source = recipe.phase[route]
    if phase.steps and not source.steps:
        return [
            f"phase.{name}.route = {route!r} needs its experts: phase.{route}.steps is 0 - "
            f"set phase.{name}.steps = 0 too"
        ]
    missing = [world for world in worlds_of(recipe, phase) if world not in worlds_of(recipe, source)]
    if not missing:
        return []
    return [
        f"phase.{name}.envs must be worlds of phase.{route}.envs: no expert for {_listed(missing)}"
        f" is trained - set phase.{name}.envs to {worlds_of(recipe, source)}"
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
