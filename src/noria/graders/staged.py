"""Rules, then the judge: later stages look only at work that passed all stages before them.

A judge is dear and can be talked round; rules are cheap and cannot. Two stages are the report's reward for instruction
following: a program checks the constraints, a model looks for nonsense among what passes.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from pydantic import Field, ValidationError

from noria.core import registry
from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.types import Outcome
from noria.graders.base import Case, Example, Given, Grader, control_of, outcome, spec_of

SOURCE = "Mach-Mind, two-stage reward of instruction following"
NEEDS = ("children", "judge")


class Stage(Checked):
    """A grader with its settings."""

    grader: str = Field(min_length=1, description="name of a grader")
    settings: dict[str, Any] = Field(default_factory=dict, description="keys of its Config")


class Config(Checked):
    """Which graders, in which order."""

    stages: tuple[Stage, ...] = Field(
        default=(Stage(grader="patterns"), Stage(grader="judge")),
        min_length=1,
        max_length=8,
        description="graders, the first first",
    )


class Spec(Checked):
    """What is right at each stage."""

    stages: tuple[dict[str, Any], ...] = Field(min_length=1, description="for each stage, the spec of its grader")


EXAMPLES = (
    Example(
        {"stages": [{"must": ["tea"], "must_not": ["coffee"]}, {"question": "Is it a sensible sentence?"}]},
        ("I like tea.",),
        ("I like coffee and tea.", "tea tea tea tea", ""),
        "Say something about tea, and do not name coffee.",
        ("verdict: yes", "verdict: yes", "verdict: no", "verdict: yes"),
    ),
)


class Staged:
    """See the module."""

    def __init__(self, config: Config, graders: tuple[Grader, ...]) -> None:
        self._config, self._graders = config, graders

    async def grade(self, case: Case) -> Outcome:
        """1 if every stage says 1; a part for each stage that looked.

        Raises:
            UserError: a stage has no spec, or one that it refuses.
        """
        spec = spec_of(Spec, case)
        if len(spec.stages) != len(self._graders):
            raise UserError(
                f"spec.stages must be {len(self._graders)}: got {len(spec.stages)} - give one for each stage"
            )
        parts: dict[str, float] = {}
        for number, (grader, below) in enumerate(zip(self._graders, spec.stages, strict=True), 1):
            name = f"{number}.{self._config.stages[number - 1].grader}"
            found = await grader.grade(replace(case, spec=below))
            if found.reward is None:
                return Outcome.unknown(f"{name}: {found.reason}")
            parts[name] = found.reward
            parts |= {f"{name}.{key}": value for key, value in found.parts.items()}
            if found.reward < 1:
                return Outcome(0.0, parts, f"{name}: {found.reason}")
        return Outcome(1.0, parts, "passes every stage")

    async def control(self, case: Case) -> Outcome:
        """Known where the control run of every stage is."""
        for grader, below in zip(self._graders, spec_of(Spec, case).stages, strict=True):
            found = await control_of(grader, replace(case, spec=below))
            if found.reward is None:
                return found
        return outcome(True, "every stage can be graded")

    async def close(self) -> None:
        """Close the graders of the stages."""
        await asyncio.gather(*(grader.close() for grader in self._graders))


def build(config: Config, given: Given) -> Staged:
    """A grader.

    Raises:
        UserError: a stage names no grader, refuses its settings, or needs what is not given.
    """
    return Staged(config, tuple(made(stage.grader, stage.settings, given) for stage in config.stages))


def made(name: str, settings: dict[str, Any], given: Given) -> Grader:
    """The grader of a name, or of a dotted module.

    Raises:
        UserError: there is none, it refuses its settings, or it needs what is not given.
    """
    module = registry.resolve("graders", name)
    try:
        config = module.Config(**settings)
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(
            f"settings.{where} must fit grader {name!r}: {first['msg']}, got {first['input']!r:.60}"
        ) from fault
    grader: Grader = module.build(config, given)
    return grader
