"""Recipes: one TOML file, overlays and `key.sub=value` say everything about a run.

`load` reads, merges, validates and reports; a `Recipe` is what every stage is handed. The tables are in
`recipe_tables` and `recipe_phases`, the rules between fields in `recipe_checks`, merging in `recipe_load`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from noria.core import recipe_checks, recipe_load, recipe_plugins, recipe_report
from noria.core.errors import UserError
from noria.core.recipe_phases import Phase
from noria.core.recipe_tables import (
    NAME,
    Curate,
    EnvTable,
    Eval,
    ExecutorTable,
    Gate,
    HintTable,
    Rollout,
    SandboxTable,
    ServiceTable,
    Student,
    Supervisor,
    Table,
    TeacherTable,
)

__all__ = ["Recipe", "from_json", "load", "of_world"]


class Recipe(Table):
    """Everything a run needs, resolved."""

    name: str = Field(pattern=NAME, description="of the recipe; run folders begin with it")
    rounds: int = Field(default=1, ge=1, description="closed-loop rounds")
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="every random draw of the run derives from it")
    runs_dir: str = Field(default="runs", description="folder that run folders are made in")
    student: Student = Field(default_factory=Student, description="the model that is improved")
    executor: ExecutorTable = Field(default_factory=ExecutorTable, description="where workers run")
    scorers: ServiceTable | Literal["here"] = Field(
        default_factory=ServiceTable,
        description="where teachers and the frozen reference score: workers of an executor, beside the learner's work; "
        "here = in the process that leads the run, in turn with all else",
    )
    learner: ServiceTable | Literal["here"] = Field(
        default="here",
        description="where the learner trains: here = in the process that leads the run, or one worker of an executor",
    )
    sandbox: SandboxTable = Field(default_factory=SandboxTable, description="where code of a model runs")
    teachers: dict[str, TeacherTable] = Field(default_factory=dict, description="teachers by name")
    env: dict[str, EnvTable] = Field(min_length=1, description="worlds by name, at least one")
    rollout: Rollout = Field(default_factory=Rollout, description="the dual track")
    supervisor: Supervisor = Field(default_factory=Supervisor, description="what finds key actions")
    hint: HintTable = Field(default_factory=HintTable, description="hints and re-sampling")
    curate: Curate = Field(default_factory=Curate, description="cleaning")
    phase: dict[str, Phase] = Field(default_factory=dict, description="training phases, in the order written")
    gate: Gate = Field(default_factory=Gate, description="promotion")
    eval: Eval = Field(default_factory=Eval, description="how held-out tasks are played")

    @field_validator("scorers", "learner", mode="before")
    @classmethod
    def _one_word(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str) and value != "here":
            raise ValueError(
                f'{info.field_name} must be "here" or a table: got {value!r} - write {info.field_name} = "here" '
                f'or {info.field_name} = {{ type = "local" }}'
            )
        return value

    @model_validator(mode="after")
    def _cross_checks(self) -> Recipe:
        problems = recipe_checks.problems(self)
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def resolved_json(self) -> str:
        """The whole recipe, defaults included, as JSON (TOML has no null)."""
        return json.dumps(self.model_dump(mode="json"), indent=2) + "\n"

    def fingerprint(self) -> str:
        """SHA-256 over everything that can change a result; where run folders lie cannot."""
        data = self.model_dump(mode="json", exclude={"runs_dir"})
        # The order of phases is meant, the order of keys inside a table is not: keep the one, sort the other.
        data["phase"] = list(data["phase"].items())
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def load(files: Sequence[str | Path], overrides: Sequence[str] = ()) -> Recipe:
    """Merge files left to right, then the overrides, and validate everything, plug-in tables included.

    Raises:
        UserError: a missing file, bad TOML (line and column), an unknown key (the nearest right one and its
            section), a wrong value, or fields that do not fit each other. The message lists every fault.
    """
    data = recipe_load.merge_files([Path(file) for file in files], Recipe)
    for text in overrides:
        data = recipe_load.override(data, text, Recipe)
    return _validated(data)


def of_world(env: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of one world of type `env` and nothing else, for measuring a model on it.

    Raises:
        UserError: as `load`.
    """
    data: dict[str, Any] = {"name": "eval", "env": {env.rpartition(".")[2]: {"type": env}}}
    for text in overrides:
        data = recipe_load.override(data, text, Recipe)
    return _validated(data)


def from_json(text: str) -> Recipe:
    """The recipe that `resolved_json` wrote. Raises UserError where this version of Noria refuses it."""
    return _validated(json.loads(text))


def _validated(data: dict[str, Any]) -> Recipe:
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as fault:
        raise UserError(recipe_report.describe(fault, data, Recipe)) from None
    resolved, faults = recipe_plugins.resolve(recipe)
    if faults:
        raise UserError("\n".join(faults))
    return recipe.model_copy(update=resolved)
