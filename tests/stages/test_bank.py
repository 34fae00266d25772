"""The bank of teachers: at which temperature each model is read, how many are held, who scores which sample."""

from __future__ import annotations

import copy
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stage_helpers import TASK, rolled

from noria.core import recipe as recipes
from noria.core.errors import UserError
from noria.core.recipe_phases import RlPhase, TeacherPhase
from noria.stages.bank import ModelBank
from noria.stages.distil import route_of
from noria.stages.loop import build_terms
from noria.stages.teach import signal_of
from noria.trainers.local import Config, LocalTrainer, build
from noria.trainers.rows import Row

REFERENCE = {"kl_ref": {}, "k1_pg": {}}


def trainer_of(model: Any) -> LocalTrainer:
    trainer = LocalTrainer(Config(line_tokens=64), copy.deepcopy(model))
    trainer.configure(1e-3, (0.9, 0.99), 0.0, 0.0)
    return trainer


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
@pytest.mark.parametrize("of_teacher", [1.0, 0.8])
def test_the_reference_is_read_as_the_policy_and_the_teacher_at_its_own(
    temperature: float, of_teacher: float, ctx: Any, taught: Any
) -> None:
    """Before the first step a reference that is the policy costs nothing, at any temperature of the phase."""
    chosen = {} if of_teacher == 1 else {"teacher_temperature": of_teacher}
    phase = TeacherPhase(signal="teacher", route="experts", temperature=temperature, loss=REFERENCE, **chosen)
    trainer = trainer_of(taught.model)
    experts = {"ledger": taught.folder}
    signal = signal_of(ctx, None, "p", phase, taught.folder, trainer, experts, {"ledger": []}, {})  # type: ignore[arg-type]
    coefficients = signal.begin(0)
    rows = [row for g in range(3) for row in signal.rows(g, [rolled(1.0, ("a", "b"), 3 + g)])]
    for row, logp in zip(rows, trainer.score(rows, temperature), strict=True):
        row.logp_old = logp
    signal.prepare(rows)
    for row, want in zip(rows, trainer.score(rows, of_teacher), strict=True):
        assert row.logp_ref is not None
        np.testing.assert_allclose(np.exp(row.logp_old - row.logp_ref), 1.0, atol=1e-5)
        np.testing.assert_allclose(row.logp_teacher, want, atol=1e-5)
    facts = trainer.step(rows, build_terms(phase), coefficients, temperature)
    assert facts["loss/kl_ref"] == pytest.approx(0.0, abs=1e-9) and facts["kl_ref/k1"] == pytest.approx(0.0, abs=1e-5)
    assert facts["k1_pg/ratio_mean"] == pytest.approx(1.0, abs=1e-5)
    same = temperature == of_teacher
    assert (facts["k1_pg/abs"] < 1e-5) == same


@pytest.mark.parametrize("temperature", [0.6, 1.3])
def test_a_reward_is_not_lowered_by_a_reference_that_is_the_policy(temperature: float, ctx: Any, taught: Any) -> None:
    use = {"kl_penalty": {"coef": 1.0, "estimator": "k3"}}
    phase = RlPhase(signal="group_mean", temperature=temperature, use=use)
    trainer = trainer_of(taught.model)
    signal = signal_of(ctx, None, "p", phase, taught.folder, trainer, {}, {"ledger": []}, {})  # type: ignore[arg-type]
    group = []
    for reward in (1.0, 0.0):
        t = rolled(reward, ("a", "b"), 4)
        (logp,) = trainer.score([Row.plain(t.record.ids, t.record.mask)], temperature)
        group.append(replace(t, record=replace(t.record, logp_mu=tuple(logp.tolist()))))
    np.testing.assert_allclose(signal.rewards(group), [1.0, 0.0], atol=1e-6)  # type: ignore[attr-defined]


def small(width: int, seed: int) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=50, hidden_size=width, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            head_dim=8, intermediate_size=24, tie_word_embeddings=True, max_position_embeddings=64,
        )
    )  # fmt: skip


def test_one_teacher_is_let_go_before_one_of_another_shape_is_built(tmp_path: Path) -> None:
    folders = []
    for i, width in enumerate((16, 32, 16)):
        model = small(width, seed=i)
        folders.append(tmp_path / str(i))
        model.save_pretrained(folders[-1], max_shard_size="8KB" if i == 2 else "1GB")
    assert not (folders[2] / "model.safetensors").exists(), "the last one lies in several files"
    held: list[weakref.ref[Any]] = []
    most = 0

    def make(folder: Path) -> LocalTrainer:
        nonlocal most
        made = build(Config(), folder)
        held.append(weakref.ref(made.model))
        most = max(most, sum(ref() is not None for ref in held))
        return made

    bank = ModelBank(make(folders[0]), folders, make=make, home=folders[0])
    rows = [Row.plain([1, 2, 3, 4, 5], [0, 1, 1, 1, 1], g, g) for g in range(3)]
    for _ in range(2):
        bank.score(rows, states=True)
        for row, folder in zip(rows, folders, strict=True):
            np.testing.assert_allclose(row.logp_teacher, build(Config(), folder).score([row])[0], atol=1e-6)
    assert dict(bank.loads) == {0: 2, 1: 2, 2: 2} and len(held) == 5 and most == 1


NAMED = {"teacher_route": "hard", "teacher_id": "second", "opd_teacher": "arithmetic", "data_source": "ledger"}


@pytest.mark.parametrize("key", NAMED)
def test_a_task_may_name_its_route(key: str) -> None:
    routes, named = {"ledger": 0, "arithmetic": 1}, {"first": 0, "second": 1, "hard": 2}
    task = replace(TASK, data={key: NAMED[key]})
    assert route_of(task, routes, named) == {"hard": 2, "second": 1, "arithmetic": 1, "ledger": 0}[NAMED[key]]
    assert route_of(replace(TASK, world="arithmetic"), routes, named) == 1
    with pytest.raises(UserError, match=f"{key} of the task 't9' must .* got 'hrad', .*arithmetic, .*mean 'hard'"):
        route_of(replace(TASK, id="t9", data={key: "hrad"}), routes, named)


def test_the_named_teacher_scores_the_sample_and_an_unknown_one_stops_the_phase(
    ctx: Any, taught: Any, tmp_path: Path
) -> None:
    """One world, whose tasks go to two teachers."""
    other = copy.deepcopy(taught.model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.8)
    other.save_pretrained(tmp_path / "other")
    file = tmp_path / "r.toml"
    file.write_text(
        'name = "r"\nenv = { ledger = { type = "ledger", tasks = 4 } }\n'
        f'teachers.plain = {{ type = "frozen", path = "{taught.folder}" }}\n'
        f'teachers.big = {{ type = "frozen", path = "{tmp_path / "other"}" }}\n'
        '[phase]\np = { signal = "teacher", route = { ledger = "plain", hard = "big" } }\n',
        encoding="utf-8",
    )
    recipe = recipes.load([file])
    ctx = replace(ctx, recipe=recipe)
    tasks = [replace(TASK, id=f"t{i}", data=data) for i, data in enumerate([{}, {"teacher_route": "hard"}])]
    trainer = trainer_of(taught.model)
    given = (ctx, None, "p", recipe.phase["p"], taught.folder, trainer, {})
    signal = signal_of(*given, {"ledger": tasks}, {})  # type: ignore[arg-type]
    signal.begin(0)
    rows = [row for g, task in enumerate(tasks) for row in signal.rows(g, [rolled(1.0, ("a", "b"), task=task)])]
    assert [row.route for row in rows] == [0, 1]
    for row, logp in zip(rows, trainer.score(rows), strict=True):
        row.logp_old = logp
    signal.prepare(rows)
    for row, model in zip(rows, (taught.model, other), strict=True):
        np.testing.assert_allclose(row.logp_teacher, trainer_of(model).score([row])[0], atol=1e-5)
    wrong = replace(TASK, id="t7", data={"opd_teacher": "bigger"})
    with pytest.raises(UserError, match="opd_teacher of the task 't7' .* got 'bigger', expected one of big, hard, led"):
        signal_of(*given, {"ledger": [*tasks, wrong]}, {})  # type: ignore[arg-type]
