"""docs/recipes.md tells every key with its default and meaning, in the words of the models."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from noria.core.recipe import Recipe
from noria.core.recipe_phases import (
    Auxiliary,
    Credit,
    Difficulty,
    Distilled,
    DistillPhase,
    EfficiencyPhase,
    Enrich,
    JointPhase,
    Optimised,
    RlPhase,
    Sampled,
    SftPhase,
    SignalTable,
    TeacherPhase,
    Validation,
)
from noria.core.recipe_tables import Curate, EnvTable, Eval, Gate, HintTable, LossTable, Rollout, Student, Supervisor

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recipes.md"
SECTIONS: dict[str, tuple[type[BaseModel], type[BaseModel] | None]] = {
    "The top level": (Recipe, None),
    "[student]": (Student, None),
    "[env.NAME]": (EnvTable, None),
    "[rollout]": (Rollout, None),
    "[supervisor]": (Supervisor, None),
    "[hint]": (HintTable, None),
    "[curate]": (Curate, None),
    "[gate]": (Gate, None),
    "[eval]": (Eval, None),
    "Every phase": (Optimised, None),
    "Every phase that samples": (Sampled, Optimised),
    "curated": (SftPhase, Optimised),
    "group_mean, group_std, rloo": (RlPhase, Sampled),
    "Every phase with teachers": (Distilled, Sampled),
    "teacher_k1": (DistillPhase, Distilled),
    "teacher": (TeacherPhase, Distilled),
    "joint": (JointPhase, Distilled),
    "hmpo": (EfficiencyPhase, Sampled),
    "[phase.NAME.auxiliary]": (Auxiliary, None),
    "[phase.NAME.credit]": (Credit, None),
    "[phase.NAME.difficulty]": (Difficulty, None),
    "[phase.NAME.enrich]": (Enrich, None),
    "[phase.NAME.validation]": (Validation, None),
    "[phase.NAME.use.SIGNAL]": (SignalTable, None),
    "[phase.NAME.loss.TERM]": (LossTable, None),
}


def shown(value: object) -> str:
    if isinstance(value, dict):
        terms = {name: {**table.options} for name, table in value.items() if isinstance(table, LossTable)}
        return f"`{json.dumps(terms)}`" if terms else "none"
    if isinstance(value, BaseModel):
        kind = value.model_dump().get("type")
        return f"type `{kind}`" if kind else "its defaults"
    return f"`{json.dumps(value)}`"


def rows(model: type[BaseModel], base: type[BaseModel] | None) -> list[str]:
    """A table's rows: fields that `base` has with the same default are told there."""
    out: list[str] = []
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        text = "required" if default is PydanticUndefined else shown(default)
        inherited = base.model_fields.get(name) if base else None
        if inherited and inherited.get_default(call_default_factory=True, validated_data={}) == default:
            continue
        if name != "signal":
            out.append(f"| `{name}` | {text} | {field.description} |")
    return out


def test_the_page_has_a_row_for_every_key() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing: list[str] = []
    for title, (model, base) in SECTIONS.items():
        _, heading, rest = page.partition(f"### {title}\n")
        assert heading, f"docs/recipes.md must have the heading '### {title}'"
        section = rest.partition("\n### ")[0].partition("\n## ")[0]
        missing += [f"{title}: {row}" for row in rows(model, base) if row not in section]
    assert not missing, "rows to add to docs/recipes.md:\n" + "\n".join(missing)
