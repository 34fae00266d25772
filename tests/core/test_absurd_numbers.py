"""No table and no plug-in takes an infinite number, or a count that nobody can mean."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from noria.core import registry
from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.recipe import from_json, load
from noria.core.recipe_tables import Table, config_class

#: Fields that an infinite number is meant in.
MEANT = {("dtdd", "tau")}
LEAST_ABSURD = 10**9 + 1


def tables(kind: type[BaseModel] = Table) -> Iterator[type[BaseModel]]:
    for sub in kind.__subclasses__():
        if sub.__module__.startswith("noria."):
            yield sub
            yield from tables(sub)


def configs() -> Iterator[tuple[str, type[BaseModel]]]:
    for folder in ("envs", "engines", "teachers", "sandboxes", "executors", "signals", "losses", "trainers"):
        for name in registry.names(folder):
            if "Config" in vars(registry.resolve(folder, name)):
                yield name, config_class(folder, name)


def fields(of: type) -> list[tuple[str, type[BaseModel], str]]:
    """Every field that may hold a number of this type: (who has it, the model, the field)."""
    models = [(table.__name__, table) for table in dict.fromkeys(tables())] + list(configs())
    return [
        (name, model, field)
        for name, model in models
        for field, info in model.model_fields.items()
        if info.annotation is of or of in get_args(info.annotation)
    ]


def faults(model: type[BaseModel], field: str, value: object) -> set[Any]:
    try:
        model.model_validate({field: value})
    except ValidationError as fault:
        return {error["loc"][0] for error in fault.errors() if error["loc"]}
    return set()


COUNTS, NUMBERS = fields(int), [f for f in fields(float) if (f[0], f[2]) not in MEANT]


def test_every_plug_in_of_the_house_is_checked() -> None:
    assert len(COUNTS) > 60 and len(NUMBERS) > 60
    assert [name for name, kind in configs() if not issubclass(kind, Checked)] == []


@given(st.sampled_from(COUNTS), st.integers(LEAST_ABSURD, 10**40))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_no_count_is_absurd(field: tuple[str, type[BaseModel], str], value: int) -> None:
    if "seed" not in field[2] or value >= 2**63:
        assert field[2] in faults(field[1], field[2], value)


@given(st.sampled_from(NUMBERS), st.sampled_from([math.inf, -math.inf, math.nan]))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_every_number_is_finite(field: tuple[str, type[BaseModel], str], value: float) -> None:
    assert field[2] in faults(field[1], field[2], value)


@given(st.sampled_from(NUMBERS), st.floats(2e9, 1e308), st.sampled_from([1.0, -1.0]))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_no_number_is_absurd(field: tuple[str, type[BaseModel], str], value: float, sign: float) -> None:
    assert field[2] in faults(field[1], field[2], sign * value)


@given(st.sampled_from(NUMBERS), st.floats(5e-324, 1e-31))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_no_number_is_next_to_nothing(field: tuple[str, type[BaseModel], str], value: float) -> None:
    assert field[2] in faults(field[1], field[2], value)


RECIPE = """
name = "numbers"
[teachers]
slow = { type = "ema" }
[env]
sums = { type = "arithmetic" }
[phase.grow]
signal = "group_mean"
[phase.learn]
signal = "curated"
[phase.distill]
signal = "teacher"
route = "slow"
loss = { forward_kl_topk = {} }
use = { clip = { type = "latch", target = "forward_kl_topk", metric = "m", above = 1.0 } }
"""
MILLION, BILLION = 10**6, 10**9


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ("rounds", MILLION),
        ("seed", 2**63 - 1),
        ("env.sums.tasks", MILLION),
        ("env.sums.max_total", BILLION),
        ("rollout.samples_per_task", MILLION),
        ("rollout.max_tokens", MILLION),
        ("hint.tasks", MILLION),
        ("gate.tasks", MILLION),
        ("eval.samples_per_task", MILLION),
        ("phase.grow.steps", MILLION),
        ("phase.grow.prompts_per_step", MILLION),
        ("phase.grow.rollouts_per_prompt", MILLION),
        ("phase.grow.tokens_per_micro_batch", BILLION),
        ("phase.learn.tokens_per_step", BILLION),
        ("phase.distill.loss.forward_kl_topk.top_k", BILLION),
        ("teachers.slow.every", BILLION),
    ],
)
def test_the_message_names_the_field_the_bound_and_the_fix(tmp_path: Path, key: str, most: int) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text(RECIPE, encoding="utf-8")
    with pytest.raises(UserError) as fault:
        load([file], [f"{key}={10**20}"])
    assert f"{key} must be at most {most}: got {10**20} - lower it" in str(fault.value)
    with pytest.raises(UserError, match=f"{key} must be "):
        load([file], [f"{key}=1e20"])


@pytest.mark.parametrize(
    ("key", "value"),
    [("phase.distill.use.clip.above", "inf"), ("teachers.slow.decay", "nan"), ("phase.grow.loss.clipped.coef", "-inf")],
)
def test_options_of_plug_ins_are_finite(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text(RECIPE, encoding="utf-8")
    with pytest.raises(UserError, match=f"{key} must be a finite number: got {value}"):
        load([file], [f"{key}={value}"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("phase.grow.lr=1e30", "phase.grow.lr must be at most 1000000: got 1e+30 - lower it"),
        ("phase.grow.temperature=1e-40", "phase.grow.temperature must be 0, or at least 1e-30 away from it: got 1e-40"),
        ("phase.grow.loss.clipped.coef=-1e30", "phase.grow.loss.clipped.coef must be at least -1000000000: got -1e+30"),
        ("phase.grow.loss.clipped.dual_clip=1e30", "phase.grow.loss.clipped.dual_clip must be at most 1000000000"),
        ("phase.distill.teacher_weights={slow = 1e30}", "phase.distill.teacher_weights must be at most 1000000: got"),
    ],
)
def test_numbers_with_a_point_are_bounded_too(tmp_path: Path, change: str, told: str) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text(RECIPE, encoding="utf-8")
    with pytest.raises(UserError) as fault:
        load([file], [change])
    assert told in str(fault.value)


def test_where_infinity_is_meant_it_survives_being_saved(tmp_path: Path) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text(RECIPE, encoding="utf-8")
    recipe = load([file], ["phase.distill.loss.ce.coef=1.0", "phase.distill.use.dtdd.tau=inf"])
    again = from_json(recipe.resolved_json())
    assert again.fingerprint() == recipe.fingerprint()
    assert again.phase["distill"].use["dtdd"].config("dtdd").tau == math.inf  # type: ignore[union-attr]


def test_no_number_is_not_a_number_even_where_infinity_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text(RECIPE, encoding="utf-8")
    with pytest.raises(UserError, match=r"phase\.distill\.use\.dtdd\.tau must be a number: got nan"):
        load([file], ["phase.distill.loss.ce.coef=1.0", "phase.distill.use.dtdd.tau=nan"])


def test_the_rollouts_of_a_validation_are_bounded_together(tmp_path: Path) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text(RECIPE, encoding="utf-8")
    told = r"phase\.grow\.validation\.tasks \* .* must be at most 10000000.*got 100000 \* 1000 - lower one"
    with pytest.raises(UserError, match=told):
        load([file], ["phase.grow.validation={tasks = 100000, rollouts = 1000}"])
    assert load([file], ["phase.grow.validation={tasks = 100000, rollouts = 100}"])


def test_the_tasks_that_a_phase_draws_are_bounded_together(tmp_path: Path) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text(RECIPE, encoding="utf-8")
    values = ["phase.grow.steps=10000", "phase.grow.prompts_per_step=1000", "phase.grow.minibatches=1"]
    with pytest.raises(UserError, match=r"phase\.grow\.steps \* .* must be at most 10000000.*got 20000000 - lower"):
        load([file], values)
    assert load([file], [*values, "phase.grow.max_refills=0"])
