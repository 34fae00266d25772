"""What turns groups of rollouts into rows: reinforcement, efficiency, distillation, and the bank of teachers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from stage_helpers import rolled

from noria.core.recipe_phases import DistillPhase, EfficiencyPhase, JointPhase, RlPhase
from noria.core.types import Task
from noria.signals.base import Played
from noria.stages import signals
from noria.stages.bank import ModelBank
from noria.stages.hooks import Hooks
from noria.stages.loop import build_terms, split
from noria.stages.roller import Job
from noria.stages.signals import Distillation, Efficiency, GroupAdvantage
from noria.tokens.calls import render_call
from noria.trainers.local import Config, LocalTrainer
from noria.trainers.rows import Row

PAY, LOOK = render_call("transfer", src="A1", dst="B2", amount="3"), render_call("list")


def reinforce(worlds, kappa: float = 2.0, decisive=("transfer",)) -> GroupAdvantage:
    phase = RlPhase(signal="group_mean", credit={"key_action": kappa})
    return GroupAdvantage(phase, worlds, {"ledger": decisive})


def test_an_unknown_reward_takes_no_part(worlds):
    group = [rolled(1.0), rolled(None), rolled(0.0), rolled(0.0), rolled(None)]
    rows = reinforce(worlds).rows(4, group)
    known = [rolled(1.0), rolled(0.0), rolled(0.0)]
    assert len(rows) == 3 and {row.group for row in rows} == {4}
    for row, other, want in zip(rows, reinforce(worlds).rows(4, known), (2 / 3, -1 / 3, -1 / 3), strict=True):
        assert row.advantage.tolist() == other.advantage.tolist() == [pytest.approx(want)] * len(row)


@pytest.mark.parametrize("rewards", [[1.0] * 4, [0.0] * 4, [None] * 3, [None, 1.0], [0.3, 0.3, None]])
def test_equal_rewards_teach_nothing(worlds, rewards):
    assert reinforce(worlds).rows(0, [rolled(reward) for reward in rewards]) == []


def test_a_rollout_at_the_mean_stays_in_its_group(worlds):
    rows = reinforce(worlds).rows(0, [rolled(1.0), rolled(0.5), rolled(None), rolled(0.0)])
    assert [row.advantage[0] for row in rows] == [0.5, 0.0, -0.5]
    # With rewards of 0 and 1 none is at the mean: rows are those of a nonzero advantage.
    for solved in range(1, 8):
        group = [rolled(float(i < solved)) for i in range(8)]
        assert len(reinforce(worlds).rows(0, group)) == 8


@pytest.mark.parametrize("aggregate", ["token", "sequence", "prompt"])
def test_the_loss_is_that_of_whole_groups(worlds, random_model, aggregate):
    """Denominators count every rollout of a group with signal, and terms without an advantage read them all."""
    groups = [
        [rolled(r, tokens=3 + i, name=f"a{i}") for i, r in enumerate((1.0, 0.5, 0.0, 0.5))],
        [rolled(r, tokens=4 + i, name=f"b{i}") for i, r in enumerate((0.25, 0.25, None, 0.25))],  # no signal at all
        [rolled(r, tokens=5 + i, name=f"c{i}") for i, r in enumerate((0.75, None, 0.25, 0.5))],
    ]
    loss = {"clipped": {"aggregate": aggregate}, "kl_ref": {"aggregate": aggregate, "estimator": "k2"}}
    signal = reinforce(worlds, decisive=())
    rows = [row for g, group in enumerate(groups) for row in signal.rows(g, group)]
    trainer = LocalTrainer(Config(), random_model)
    trainer.configure(1e-3, (0.9, 0.99), 0.0, 1.0)
    logp = trainer.score(rows)
    rng = np.random.default_rng(0)
    for row, old in zip(rows, logp, strict=True):
        row.logp_old, row.logp_ref = old, old + rng.normal(0, 0.3, len(row))
    terms = build_terms(RlPhase(signal="group_mean", loss=loss))
    facts = trainer.step(split(rows, 1, 0)[0], terms, {"clipped": 1.0, "kl_ref": 1.0})

    # The naive loss: every known rollout of both groups with signal, ratio 1, advantage R - mean.
    values: dict[str, list[list[tuple[float, int]]]] = {"clipped": [], "kl_ref": []}
    each = iter(zip(rows, logp, strict=True))
    for group in (groups[0], groups[2]):
        known = [t for t in group if t.outcome.known]
        mean = np.mean([t.outcome.reward for t in known])
        for name in values:
            values[name].append([])
        for rollout in known:
            row, old = next(each)
            n = rollout.record.action_tokens
            assert row.mask.sum() == n
            values["clipped"][-1].append((-(rollout.outcome.reward - mean) * n, n))
            values["kl_ref"][-1].append((float((0.5 * (old - row.logp_ref)[row.mask] ** 2).sum()), n))
    assert next(each, None) is None
    for name, by_group in values.items():
        every = [pair for found in by_group for pair in found]
        want = {
            "token": sum(v for v, _ in every) / sum(n for _, n in every),
            "sequence": float(np.mean([v / n for v, n in every])),
            "prompt": float(np.mean([sum(v for v, _ in found) / sum(n for _, n in found) for found in by_group])),
        }[aggregate]
        assert facts[f"loss/{name}"] == pytest.approx(want, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kappa", [1.0, 2.0, 3.5])
def test_key_actions_weigh_more_and_the_mean_stays_one(worlds, kappa):
    rollout = rolled(1.0, (LOOK, PAY, LOOK), tokens=4)
    row, _ = reinforce(worlds, kappa).rows(0, [rollout, rolled(0.0)])
    assert row.mask.sum() == 12 and row.weight[row.mask].mean() == pytest.approx(1.0)
    assert (row.weight[~row.mask] == 0).all()
    key = np.zeros(len(row), dtype=bool)
    key[rollout.turns[1].token_start : rollout.turns[1].token_end] = True
    assert set(np.round(row.weight[key] / row.weight[row.mask & ~key][0], 9)) == {kappa}


def test_no_decisive_kind_means_even_weights(worlds):
    for signal in (reinforce(worlds, decisive=()), GroupAdvantage(RlPhase(signal="rloo"), worlds, {})):
        row, _ = signal.rows(0, [rolled(1.0, (LOOK, PAY)), rolled(0.0)])
        assert row.weight.tolist() == row.mask.astype(float).tolist()


def test_the_truncated_weight_corrects_the_engine():
    row = Row.plain([1, 2, 3, 4], [0, 1, 1, 1])
    row.logp_mu = np.array([0.0, -1.0, -1.0, -3.0])
    row.logp_old = np.array([0.0, -1.0, -1.5, -1.0])
    row.weight = np.array([5.0, 1.0, 2.0, 1.0])
    hooks = Hooks(RlPhase(signal="group_mean"))
    facts = hooks.weigh([row], "rl")
    assert row.weight.tolist() == pytest.approx([0.0, 1.0, 2 * np.exp(-0.5), 2.0])
    assert facts == pytest.approx({"logp_diff/mean": 2.5 / 3, "logp_diff/max": 2.0})
    assert hooks.weigh([], "rl") == {"logp_diff/mean": 0.0, "logp_diff/max": 0.0}


def test_efficiency_pays_the_shorter_of_the_correct():
    efficiency = Efficiency(EfficiencyPhase(signal="hmpo"))
    group = [rolled(1.0, tokens=2), rolled(1.0, tokens=4), rolled(1.0, tokens=6), rolled(0.0, tokens=1), rolled(None)]
    # The median of the correct lengths is 4: 2 tokens get min(1, cos 45° + 0.8), 4 get 0.8, longer and wrong get 0.
    paid = np.array([1.0, 0.8, 0.0, 0.0])
    rows = efficiency.rows(0, group)
    assert [row.advantage[0] for row in rows] == pytest.approx((paid - paid.mean()).tolist())
    assert [int(row.mask.sum()) for row in rows] == [2, 4, 6, 1]
    for row in rows:
        row.logp_old = row.logp_mu
    facts = efficiency.prepare(rows)
    assert facts["hmpo/correct_frac"] == 1.0 and facts["logp_diff/max"] == 0.0
    assert all(row.weight[row.mask].tolist() == [1.0] * int(row.mask.sum()) for row in rows)


def test_efficiency_without_a_correct_rollout_teaches_nothing():
    efficiency = Efficiency(EfficiencyPhase(signal="hmpo"))
    assert efficiency.rows(0, [rolled(0.0, tokens=n) for n in (1, 2, 3)]) == []
    # One that the token limit cut off does not count as correct, whatever its reward.
    assert efficiency.rows(1, [rolled(1.0, stop="token_limit"), rolled(0.0)]) == []
    assert efficiency.prepare([])["hmpo/correct_frac"] == 0.0


@pytest.fixture
def teachers(random_model, tmp_path):
    """Two teachers of one shape: their models and checkpoint folders."""
    models = [random_model, copy.deepcopy(random_model)]
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter.mul_(0.6)
    folders = []
    for i, model in enumerate(models):
        folder = tmp_path / f"teacher-{i}"
        folder.mkdir()
        model.config.save_pretrained(folder)
        (folder / "model.safetensors").write_bytes(LocalTrainer(Config(), model).weights())
        folders.append(folder)
    return models, folders


def routed(routes: list[int]) -> list[Row]:
    rng = np.random.default_rng(0)
    out = []
    for group, route in enumerate(routes):
        mask = [0, 0, *rng.integers(0, 2, 7).tolist(), 1]
        out.append(Row.plain(rng.integers(0, 50, 10).tolist(), mask, group, route))
    return out


def test_the_bank_loads_each_teacher_once_a_batch(teachers):
    models, folders = teachers
    bank = ModelBank(LocalTrainer(Config(), copy.deepcopy(models[0])), folders)
    rows = routed([0, 1, 0, 1, 1, 0])
    bank.score(rows)
    assert dict(bank.loads) == {0: 1, 1: 1}
    for route, model in enumerate(models):
        mine = [row for row in rows if row.route == route]
        for row, want in zip(mine, LocalTrainer(Config(), model).score(mine), strict=True):
            np.testing.assert_allclose(row.logp_teacher, want, atol=1e-5)
    # The one that is resident is not loaded again.
    bank.score(routed([1, 1]))
    assert dict(bank.loads) == {0: 1, 1: 1}
    bank.score(routed([1, 0]))
    assert dict(bank.loads) == {0: 2, 1: 2}


@pytest.mark.parametrize("adv_ref", ["old", "current"])
def test_a_student_that_is_its_teacher_gets_no_push(teachers, adv_ref):
    models, folders = teachers
    phase = DistillPhase(signal="teacher_k1", route="experts", adv_ref=adv_ref)
    routes = {"ledger": 0, "arithmetic": 1}
    signal = Distillation(phase, ModelBank(LocalTrainer(Config(), copy.deepcopy(models[0])), folders), routes)
    assert (signal.rewrite is None) == (adv_ref == "old")
    rollouts = {world: rolled(None, ("a", "b"), task=Task("t", world, "", ""), stop="token_limit") for world in routes}
    # Neither an unknown outcome nor the token limit matters: no reward is used.
    rows = signal.rows(0, [rollouts["ledger"]]) + signal.rows(1, [rollouts["arithmetic"]])
    assert [row.route for row in rows] == [0, 1]
    student = LocalTrainer(Config(), copy.deepcopy(models[0]))
    for row, logp in zip(rows, student.score(rows), strict=True):
        row.logp_old = logp
    facts = signal.prepare(rows)
    np.testing.assert_allclose(rows[0].advantage, 0.0, atol=1e-5)
    assert facts["distill/abs/ledger"] == pytest.approx(0.0, abs=1e-5)
    other = rows[1]
    assert np.abs(other.advantage[other.mask]).max() > 0.1
    want = LocalTrainer(Config(), models[1]).score([other])[0] - other.logp_old
    np.testing.assert_allclose(other.advantage[other.mask], want[other.mask], atol=1e-5)
    assert facts["distill/k1/arithmetic"] == pytest.approx(-want[other.mask].mean(), abs=1e-4)


def test_a_response_that_is_cut_short_is_distilled_and_its_reward_does_not_matter(worlds, teachers):
    bank = ModelBank(LocalTrainer(Config(), copy.deepcopy(teachers[0][0])), teachers[1])
    task = Task("t", "ledger", "", "")
    for phase in (
        DistillPhase(signal="teacher_k1", route="x", max_response=7),
        JointPhase(signal="joint", route="x", max_response=7, beta=0.0),
    ):
        signal = signals.build(phase, worlds, {}, bank, {"ledger": 0})
        assert signal.job(Job("j", task, 0), 3).max_response == 7
        for reward in (0.0, None, 1.0):
            (row,) = signal.rows(0, [rolled(reward, ("a", "b"), task=task, stop="token_limit")])
            assert row.mask.sum() == 6 and row.weight[row.mask].tolist() == [1.0] * 6
    assert reinforce(worlds).job(Job("j", task, 0), 3).max_response == 0


def test_a_phase_chooses_its_signal(worlds, teachers):
    bank = ModelBank(LocalTrainer(Config(), teachers[0][0]), teachers[1])
    made = [
        signals.build(phase, worlds, {}, bank, {"ledger": 0})
        for phase in (
            RlPhase(signal="group_std"),
            EfficiencyPhase(signal="hmpo"),
            DistillPhase(signal="teacher_k1", route="x"),
        )
    ]
    assert [type(signal) for signal in made] == [GroupAdvantage, Efficiency, Distillation]


def test_an_advantage_takes_its_options_from_the_phase(worlds):
    group = [rolled(r) for r in (1.0, 0.0, 0.0)]
    sample = np.std([1.0, 0.0, 0.0], ddof=1)
    for phase in (
        RlPhase(signal="group_std", advantage={"ddof": 1, "eps": 0.0}),
        JointPhase(signal="joint", route="x", advantage={"type": "group_std", "ddof": 1, "eps": 0.0}),
    ):
        assert GroupAdvantage(phase, worlds, {}).advantages(group)[0] == pytest.approx(2 / 3 / sample)


@pytest.mark.parametrize("names", [("overlong", "two_stage"), ("two_stage", "overlong")])
def test_what_reads_outcomes_comes_before_what_shapes_them(names: tuple[str, ...]) -> None:
    """Else a penalty would keep the curriculum from seeing a single success, or be lost in its first stage."""
    tables: dict[str, dict[str, Any]] = {
        "two_stage": {"measure": "training", "threshold": 0.5, "window": 2, "parts": ["half"]},
        "overlong": {"max_tokens": 10, "buffer_tokens": 4},
    }
    hooks = Hooks(RlPhase(signal="group_mean", use={name: tables[name] for name in names}))
    group = [Played(8, False, {"half": 0.5}, 1, np.zeros(8), np.zeros(0)) for _ in range(2)]

    def shaped() -> list[float | None]:
        rewards: list[float | None] = [1.0, 1.0]
        for shaper in hooks.rewards:
            rewards = shaper.shape(rewards, group)
        return rewards

    first, second = shaped(), shaped()
    penalty = 0.5  # two of the buffer's four tokens are used
    assert first == [pytest.approx(0.5 - penalty)] * 2 and second == [pytest.approx(1.0 - penalty)] * 2
