"""Decides which task folders can be worked on here, and makes them into stages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from noria.core.errors import PolicyError
from noria.core.protocols import Shape
from noria.envs.harbor.folder import File, Files, Folder, plain_instruction
from noria.envs.harbor.image import Image, is_plain, read_image
from noria.envs.harbor.places import inside, links
from noria.envs.harbor.schema import Artifact, Environment, Healthcheck, Verifier, unknown_keys

SCRIPT, SOLVE = "test.sh", "solve.sh"
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Stage:
    """One instruction and its grading; a task without steps has one stage.

    workdir   files that are put into the working folder before it; `setup.sh` among them is run
    limit_s   seconds of commands that the policy has, None = as the world says
    least     rewards that must be reached for the next stage, by key
    """

    name: str
    instruction: str
    tests: Files
    solution: Files
    workdir: Files
    limit_s: float | None
    verifier: Verifier
    verifier_env: Mapping[str, str]
    least: Mapping[str, float]
    healthcheck: Healthcheck | None
    artifacts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A task that can be worked on here."""

    name: str
    image: Image
    env: Mapping[str, str]
    solution_env: Mapping[str, str]
    shape: Shape
    cpus: float | None
    healthcheck: Healthcheck | None
    stages: tuple[Stage, ...]
    final: bool


@dataclass(slots=True)
class Admission:
    """What was found out about a folder: a plan, or why there is none; and what was passed over."""

    folder: Folder
    plan: Plan | None = None
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def admit(folder: Folder, variables: Mapping[str, str]) -> Admission:
    """Look at a folder. `variables` are what tasks may ask for as `${NAME}`; never the process's own."""
    found = Admission(folder)
    sheet = folder.sheet
    found.notes += [*folder.cut, *(f"unknown key {key}" for key in unknown_keys(sheet))]
    image = _image(found, sheet.environment, folder.environment)
    env = _values(found, "environment.env", sheet.environment.env, variables)
    solution_env = _values(found, "solution.env", sheet.solution.env, variables)
    _look_at_environment(found, sheet.environment)
    stages = _stages(found, variables)
    paths: list[str] = []
    if image is not None:
        if sheet.environment.workdir:
            image.workdir = sheet.environment.workdir
        paths = [*image.files, image.workdir, *(path for stage in stages for path in stage.artifacts)]
        for path in paths:
            _checked(found, path)
    if found.reasons or image is None:
        return found
    shape = Shape(links(paths), sheet.environment.memory_mb or 0, sheet.environment.storage_mb or 0)
    found.notes += image.notes
    found.plan = Plan(
        folder.name, image, {**image.env, **env}, solution_env, shape, sheet.environment.cpus,
        sheet.environment.healthcheck, tuple(stages), sheet.multi_step_reward_strategy == "final",
    )  # fmt: skip
    return found


def _image(found: Admission, table: Environment, context: Files) -> Image | None:
    try:
        if table.docker_image and not context:
            if not is_plain(table.docker_image):
                raise PolicyError(f"docker_image {table.docker_image} brings what the sandbox may lack")
            return Image()
        return read_image(context)
    except PolicyError as fault:
        found.reasons.append(f"needs an image: {fault}")
        return None


def _look_at_environment(found: Admission, table: Environment) -> None:
    if table.os.lower() != "linux":
        found.reasons.append(f"needs the system {table.os!r}")
    if table.gpus or table.gpu_types or table.tpu:
        found.reasons.append("needs accelerators")
    if table.mcp_servers:
        found.reasons.append("needs MCP servers: " + ", ".join(str(each.get("name")) for each in table.mcp_servers))
    if table.network_mode == "allowlist":
        found.reasons.append(f"needs the network: allowed_hosts {', '.join(table.allowed_hosts or [])}")
    elif table.network_mode == "public" and "network_mode" in table.model_fields_set:
        found.notes.append("network_mode public: the sandbox has no network")
    if table.skills_dir:
        found.notes.append("skills_dir: no skills are shown")


def _stages(found: Admission, variables: Mapping[str, str]) -> list[Stage]:
    folder, sheet = found.folder, found.folder.sheet
    common = _artifacts(found, sheet.artifacts)
    if not sheet.steps:
        return [
            _stage(
                found, "", folder.instruction, folder.tests, folder.solution, {}, sheet.agent.timeout_sec,
                sheet.verifier, variables, {}, None, common,
            )
        ]  # fmt: skip
    stages = []
    for step in sheet.steps:
        part = folder.steps[step.name]
        least = step.min_reward if isinstance(step.min_reward, dict) else {"reward": step.min_reward}
        verifier = step.verifier
        given = {**_set(sheet.verifier), **_set(verifier)}
        stages.append(
            _stage(
                found, step.name, part.instruction, {**folder.tests, **part.tests}, part.solution or folder.solution,
                part.workdir, step.agent.timeout_sec or sheet.agent.timeout_sec, Verifier.model_validate(given),
                variables, {key: value for key, value in least.items() if value is not None}, step.healthcheck,
                tuple(dict.fromkeys([*common, *_artifacts(found, step.artifacts)])),
            )
        )  # fmt: skip
    return stages


def _set(verifier: Verifier) -> dict[str, object]:
    """The keys of a table that its file has, so that a step's go over the task's."""
    return {name: vars(verifier)[name] for name in verifier.model_fields_set if name in type(verifier).model_fields}


def _stage(
    found: Admission, name: str, instruction: str, tests: Files, solution: Files, workdir: Files,
    limit_s: float | None, verifier: Verifier, variables: Mapping[str, str], least: Mapping[str, float],
    healthcheck: Healthcheck | None, artifacts: tuple[str, ...],
) -> Stage:  # fmt: skip
    where = f"step {name}: " if name else ""
    if SCRIPT not in tests:
        found.reasons.append(f"{where}tests/ has no {SCRIPT}")
    if verifier.environment is not None:
        found.reasons.append(f"{where}its verifier has an environment of its own")
    if any(hook.service != "main" for hook in verifier.collect):
        found.reasons.append(f"{where}collects from a further container")
    if verifier.network_mode == "allowlist":
        found.reasons.append(f"{where}its verifier needs the network")
    if SOLVE not in solution:
        found.notes.append(f"{where}solution/ has no {SOLVE}: it can't be proven")
    env = _values(found, f"{where}verifier.env", verifier.env, variables)
    return Stage(
        name, plain_instruction(instruction), tests, solution, workdir, limit_s, verifier, env, least, healthcheck,
        artifacts,
    )  # fmt: skip


def _artifacts(found: Admission, given: list[str | Artifact]) -> tuple[str, ...]:
    paths = []
    for each in given:
        artifact = Artifact(source=each) if isinstance(each, str) else each
        if artifact.service not in (None, "main"):
            found.reasons.append(f"keeps {artifact.source} of the further container {artifact.service}")
        elif artifact.source.startswith("/"):
            paths.append(artifact.source)
        else:
            found.reasons.append(f"artifacts must be absolute paths: got {artifact.source!r}")
    return tuple(paths)


def _values(found: Admission, where: str, given: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Values with `${NAME}` and `${NAME:-otherwise}` filled in; a name without either is a reason to refuse."""

    def fill(match: re.Match[str]) -> str:
        value = variables.get(match[1], match[2])
        if value is None:
            found.reasons.append(f"{where} asks for ${{{match[1]}}}: set it in the world's `variables`")
        return value or ""

    filled = {name: _VARIABLE.sub(fill, value) for name, value in given.items()}
    for name, value in filled.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or "\0" in value:
            found.reasons.append(f"{where} has a name or value that can't be set: {name!r}")
    return filled


def _checked(found: Admission, path: str) -> None:
    if path == "/":
        return
    try:
        inside(path)
    except PolicyError as fault:
        found.reasons.append(f"needs an image: {fault}")


__all__ = ["SCRIPT", "SOLVE", "Admission", "File", "Plan", "Stage", "admit"]
