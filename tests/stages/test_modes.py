"""Modes rl, opd and joint to the last bit; teachers that move, read more or share a sample; takeovers and views."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stage_helpers import rolled

from noria.core.recipe_phases import JointPhase, RlPhase, Sampled, TeacherPhase
from noria.core.types import Task, Trajectory
from noria.stages import signals
from noria.stages.bank import ModelBank
from noria.stages.distil import Means
from noria.stages.hooks import Hooks
from noria.stages.loop import build_terms, split
from noria.stages.teach import keeps
from noria.teachers import ema, frozen, privileged, synced
from noria.trainers.generate import continued
from noria.trainers.local import Config, LocalTrainer

ROUTES = {"ledger": 0, "arithmetic": 1}
PG, RL = {"balance": "route"}, {"aggregate": "prompt", "eps_high": 0.28}


class Words:
    """A renderer of as many tokens as the tests need."""

    end_ids = (3,)

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(20 + len(word) % 9 for word in text.split())


@pytest.fixture
def teachers(random_model: Any, tmp_path: Path) -> tuple[list[Any], list[Path]]:
    models, folders = [], []
    for i in range(2):
        model = copy.deepcopy(random_model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.0 - 0.15 * (i + 1))
        folder = tmp_path / f"teacher-{i}"
        folder.mkdir()
        model.config.save_pretrained(folder)
        (folder / "model.safetensors").write_bytes(LocalTrainer(Config(), model).weights())
        models.append(model)
        folders.append(folder)
    return models, folders


def groups() -> list[list[Trajectory]]:
    """Four groups: two that reinforcement can use, one without variance, one that nobody graded in part."""
    rewards = ([1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, None, 1.0], [0.0, 1.0, 0.5])
    out = []
    for g, row in enumerate(rewards):
        task = Task(f"t{g}", ("ledger", "arithmetic")[g % 2], "", "")
        out.append([rolled(r, ("a", "b")[: 1 + i % 2], 3 + i, task=task, name=f"{g}/{i}") for i, r in enumerate(row)])
    return out


def train(
    phase: Sampled, worlds: Any, model: Any, teachers: list[Any], steps: int = 2, means: Means | None = None,
    shares: list[float] | None = None, reference: Path | None = None,
) -> tuple[dict[str, torch.Tensor], dict[str, float], ModelBank]:  # fmt: skip
    """The model's tensors after steps on the same rollouts, the last metrics, the bank."""
    trainer = LocalTrainer(Config(line_tokens=64), copy.deepcopy(model))
    trainer.configure(phase.lr, phase.betas, phase.weight_decay, phase.grad_norm)
    scorer = LocalTrainer(Config(line_tokens=64), copy.deepcopy(model))
    bank = ModelBank(scorer, teachers, shares=shares, student=trainer, reference=reference)
    signal = signals.build(phase, worlds, {"ledger": ("a",)}, bank, ROUTES, means)
    facts: dict[str, float] = {}
    for step in range(steps):
        coefficients = signal.begin(step)
        rows = [row for g, group in enumerate(groups()) for row in signal.rows(g, group)]
        for row, logp in zip(rows, trainer.score(rows), strict=True):
            row.logp_old = logp
        facts = signal.prepare(rows)
        for part in split(rows, 2, step):
            facts |= trainer.step(part, build_terms(phase), coefficients, 1.0, 64, signal.rewrite)
        signal.observe(facts)
    return {k: v.clone() for k, v in trainer.model.state_dict().items()}, facts, bank


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[key], b[key]) for key in a)


def joint(**fields: Any) -> JointPhase:
    return JointPhase(signal="joint", route="x", **fields)


def test_alpha_zero_is_reinforcement_to_the_last_bit(worlds, random_model, teachers) -> None:
    alone, _, _ = train(RlPhase(signal="group_mean", lr=1e-3), worlds, random_model, [])
    mixed, _, bank = train(joint(alpha=0.0), worlds, random_model, teachers[1])
    assert same(alone, mixed) and not bank.loads


def test_beta_zero_is_distillation_to_the_last_bit(worlds, random_model, teachers) -> None:
    alone, _, _ = train(TeacherPhase(signal="teacher", route="x"), worlds, random_model, teachers[1])
    mixed, _, _ = train(joint(beta=0.0), worlds, random_model, teachers[1])
    assert same(alone, mixed)


def test_credit_concerns_reinforcement_alone(worlds, random_model, teachers) -> None:
    use = {"role_credit": {"final_answer": 0.5, "reasoning": 2.0}}
    plain, _, _ = train(joint(beta=0.0), worlds, random_model, teachers[1], steps=1)
    with_credit, _, _ = train(joint(beta=0.0, use=use), worlds, random_model, teachers[1], steps=1)
    assert same(plain, with_credit)
    signal = signals.build(
        joint(use=use), worlds, {}, ModelBank(LocalTrainer(Config(), random_model), teachers[1]), ROUTES
    )
    signal.begin(0)
    (row, *_) = signal.rows(0, groups()[0])
    row.logp_old, row.roles = row.logp_mu, ("user", "user", "think", *row.roles[3:])
    signal.prepare([row])
    assert row.channels["opd"].weight[row.mask].tolist() == row.weight[row.mask].tolist() == [1.0] * row.mask.sum()
    credit = row.channels["rl"].weight[row.mask]
    assert credit.mean() == pytest.approx(1.0) and credit[0] == pytest.approx(4 * credit[1])


def test_the_joint_gradient_is_the_sum(worlds, random_model, teachers) -> None:
    """Plain gradient steps in float64: what joint adds to the weights is what both add alone."""

    def moved(phase: Sampled, factor: float = 1.0) -> dict[str, torch.Tensor]:
        model = copy.deepcopy(random_model).double()
        trainer = LocalTrainer(Config(line_tokens=64), model)
        trainer.configure(1.0, (0.9, 0.99), 0.0, 0.0)
        scorer = LocalTrainer(Config(line_tokens=64), copy.deepcopy(random_model).double())
        signal = signals.build(phase, worlds, {}, ModelBank(scorer, teachers[1], student=trainer), ROUTES)
        trainer.optimiser = torch.optim.SGD(trainer.model.parameters(), lr=1.0)
        coefficients = signal.begin(0)
        rows = [row for g, group in enumerate(groups()) for row in signal.rows(g, group)]
        for row, logp in zip(rows, trainer.score(rows), strict=True):
            row.logp_old = logp
        signal.prepare(rows)
        before = {k: v.clone() for k, v in trainer.model.state_dict().items()}
        trainer.step(rows, build_terms(phase), coefficients, 1.0, 64, signal.rewrite)
        return {k: v - before[k] for k, v in trainer.model.state_dict().items()}

    both, rl, opd = (moved(joint(alpha=a, beta=b)) for a, b in ((0.5, 2.0), (0.0, 2.0), (0.5, 0.0)))
    assert max(float(v.abs().max()) for v in rl.values()) > 1e-4
    for key in both:
        torch.testing.assert_close(both[key], rl[key] + opd[key], atol=1e-6, rtol=0)


def test_the_gradient_of_teachers_terms_does_not_depend_on_order_or_cuts(worlds, random_model, teachers) -> None:
    """float64: samples shuffled, and cut line by line or not at all, leave the same weights to 1e-6."""
    loss = {
        "k1_pg": {"kl_discount": 0.7, "balance": "route"},
        "reverse_kl": {},
        "jsd": {"aggregate": "prompt"},
        "spod": {},
    }
    phase = TeacherPhase(signal="teacher", route="x", loss=loss)

    def trained(tokens: int, seed: int) -> dict[str, torch.Tensor]:
        trainer = LocalTrainer(Config(line_tokens=24), copy.deepcopy(random_model).double())
        trainer.configure(1.0, (0.9, 0.99), 0.0, 0.0)
        trainer.optimiser = torch.optim.SGD(trainer.model.parameters(), lr=0.1)
        scorer = LocalTrainer(Config(line_tokens=24), copy.deepcopy(random_model).double())
        signal = signals.build(phase, worlds, {}, ModelBank(scorer, teachers[1], student=trainer), ROUTES)
        coefficients = signal.begin(0)
        rows = [row for g, group in enumerate(groups()) for row in signal.rows(g, group)]
        np.random.default_rng(seed).shuffle(rows)  # type: ignore[arg-type]
        for row, logp in zip(rows, trainer.score(rows), strict=True):
            row.logp_old = logp
        signal.prepare(rows)
        trainer.step(rows, build_terms(phase), coefficients, 1.0, tokens, signal.rewrite)
        return {k: v.clone() for k, v in trainer.model.state_dict().items()}

    whole = trained(4096, 0)
    assert not same(whole, copy.deepcopy(random_model).double().state_dict())
    for tokens, seed in ((1, 0), (4096, 1), (48, 2)):
        for key, value in trained(tokens, seed).items():
            torch.testing.assert_close(value, whole[key], atol=1e-6, rtol=0)


def test_a_controller_switches_distillation_off_while_the_phase_goes_on(worlds, random_model, teachers) -> None:
    fade = {"type": "linear", "target": "alpha", "end": 0.0, "steps": 1}
    phase = joint(use={"fade": fade})
    hooks = Hooks(phase)
    assert hooks.begin(0) == {"clipped": 1.0, "k1_pg": 1.0} and hooks.begin(1) == {"clipped": 1.0, "k1_pg": 0.0}
    _, facts, bank = train(phase, worlds, random_model, teachers[1])
    assert dict(bank.loads) == {0: 1, 1: 1} and "loss/k1_pg" not in facts and "loss/clipped" in facts


@pytest.mark.parametrize(
    "term", ["reverse_kl", "forward_kl_topk", "reverse_kl_topk", "jsd", "mse_logits", "kl_teacher"]
)
def test_a_divergence_falls_when_it_is_trained(term: str, worlds, random_model, teachers) -> None:
    options = {"top_k": 8} if "topk" in term else {}
    loss = {term: {**options, "balance": "route"}}
    probing = 0 if term == "kl_teacher" else 1
    phase = TeacherPhase(signal="teacher", route="x", loss=loss, lr=3e-3, overlap_every=probing)
    _, first, _ = train(phase, worlds, random_model, teachers[1], steps=1)
    _, later, bank = train(phase, worlds, random_model, teachers[1], steps=6)
    assert later[f"loss/{term}"] < first[f"loss/{term}"]
    # Each teacher is loaded once a step at most, its head once for the probe and once for each of two mini-batches.
    assert all(count <= 6 for count in bank.loads.values())
    assert all(count <= 6 * 3 for count in bank.head_loads.values())
    assert bool(bank.head_loads) == bool(probing)
    assert not probing or 0 < first["distill/overlap/ledger"] <= 1


@pytest.mark.parametrize("term", ["k1_pg", "spod"])
def test_distillation_as_a_policy_gradient_reports_its_monitors(term: str, worlds, random_model, teachers) -> None:
    phase = TeacherPhase(signal="teacher", route="x", loss={term: {"kl_discount": 0.5}})
    _, facts, _ = train(phase, worlds, random_model, teachers[1], steps=1)
    assert facts[f"{term}/abs"] >= abs(facts[f"{term}/k1"]) and facts[f"{term}/k3"] >= 0
    assert {"distill/abs/ledger", "distill/k1/arithmetic"} <= set(facts)


def test_cached_states_stand_at_their_tokens(worlds, random_model, teachers) -> None:
    phase = TeacherPhase(signal="teacher", route="x", loss={"reverse_kl": {}})
    trainer = LocalTrainer(Config(line_tokens=64), copy.deepcopy(random_model))
    bank = ModelBank(LocalTrainer(Config(line_tokens=64), copy.deepcopy(random_model)), teachers[1], student=trainer)
    signal = signals.build(phase, worlds, {}, bank, ROUTES)
    signal.begin(0)
    rows = [row for g, group in enumerate(groups()) for row in signal.rows(g, group)]
    bank.score(rows, states=True)
    assert dict(bank.loads) == {0: 1, 1: 1} and not bank.head_loads
    for row in rows:
        (scored,) = row.scored
        with torch.no_grad():
            logits = teachers[0][row.route](torch.tensor(row.ids)[None]).logits[0]
        again = scored.head.logits(scored.hidden, scored.head.load())
        torch.testing.assert_close(again, logits[scored.at - 1], atol=1e-4, rtol=0)
        assert scored.at.tolist() == np.flatnonzero(row.mask).tolist()
    assert sum(bank.head_loads.values()) <= len(rows)


def test_joint_weights_score_every_sample_with_every_teacher(worlds, random_model, teachers) -> None:
    phase = TeacherPhase(
        signal="teacher", route="x", loss={"reverse_kl": {}}, teacher_weights={"ledger": 1, "arithmetic": 3}
    )
    _, facts, bank = train(phase, worlds, random_model, teachers[1], steps=1, shares=[1.0, 3.0])
    assert set(bank.loads) == {0, 1} and bank.shares == [0.25, 0.75] and facts["loss/reverse_kl"] > 0
    signal = signals.build(phase, worlds, {}, bank, ROUTES)
    rows = [row for g, group in enumerate(groups()) for row in signal.rows(g, group)]
    bank.score(rows)
    single = [LocalTrainer(Config(), model).score(rows) for model in teachers[0]]
    for row, a, b in zip(rows, *single, strict=True):
        np.testing.assert_allclose(row.logp_teacher, 0.25 * a + 0.75 * b, atol=1e-5)


def test_a_moving_average_is_exact() -> None:
    teacher = ema.build(ema.Config(decay=0.75, every=2))
    student = {"w": torch.tensor([1.0]), "n": torch.tensor([3])}
    for step, want in enumerate((1.0, 1.0, 0.75 + 0.25 * 5, 2.0, 0.75 * 2 + 0.25 * 9)):
        teacher.tick(step, lambda student=student: student)
        assert teacher.tensors["w"].item() == pytest.approx(want)
        student = {"w": torch.tensor([5.0 + 4.0 * (step >= 2)]), "n": torch.tensor([3])}
    again = ema.build(ema.Config(decay=0.75, every=2))
    again.restore(teacher.state())
    assert again.data() == teacher.data()
    hard = ema.build(ema.Config(decay=0.5, every=1, copy_every=2))
    for step in range(3):
        hard.tick(step, lambda step=step: {"w": torch.tensor([float(step)])})
    assert hard.tensors["w"].item() == 2.0


def test_a_synced_self_is_the_student_as_it_stood(worlds, random_model) -> None:
    seen = {every: [] for every in (0, 2)}
    for every, found in seen.items():
        teacher = synced.build(synced.Config(every=every))
        for step in range(4):
            teacher.tick(step, lambda step=step: {"w": torch.tensor([float(step)])})
            found.append(teacher.tensors["w"].item())
    assert seen == {0: [0.0] * 4, 2: [0.0, 0.0, 2.0, 2.0]}
    # A teacher that is the student gives no push.
    phase = TeacherPhase(signal="teacher", route="x", loss={"reverse_kl": {}}, lr=1e-9)
    sources = [synced.build(synced.Config()) for _ in ROUTES]
    _, facts, _ = train(phase, worlds, random_model, sources, steps=1)
    assert facts["loss/reverse_kl"] == pytest.approx(0.0, abs=1e-5)
    assert facts["distill/abs/ledger"] == pytest.approx(0.0, abs=1e-5)
    assert frozen.build(frozen.Config(path="x")).folder == Path("x")


class Solved:
    """A world that knows its solution."""

    def reference(self, task: Task) -> list[str]:
        return ["the golden words", "are these"]

    def kind(self, message: str) -> str:
        return "fine"


def test_a_privileged_self_reads_the_solution_and_the_student_never_does(random_model) -> None:
    means = Means(worlds={"ledger": Solved(), "arithmetic": Solved()}, renderer=Words())  # type: ignore[arg-type]
    phase = TeacherPhase(signal="teacher", route="x", loss={"forward_kl_topk": {"top_k": 50}})
    source = privileged.build(privileged.Config())
    trainer = LocalTrainer(Config(), copy.deepcopy(random_model))
    bank = ModelBank(LocalTrainer(Config(), copy.deepcopy(random_model)), [source], student=trainer)
    signal = signals.build(phase, {}, {}, bank, {"ledger": 0, "arithmetic": 0}, means)
    signal.begin(0)
    t = rolled(1.0, ("a", "b"), tokens=4)
    (row,) = signal.rows(0, [t])
    told = Words().encode("the golden words are these")
    assert row.ids.tolist() == list(t.record.ids) and row.seen is not None
    assert row.seen.ids.tolist() == [*t.record.ids[:2], *told, *t.record.ids[2:]]
    assert row.seen.ids[row.seen.at].tolist() == row.ids.tolist()
    row.logp_old = trainer.score([row])[0]
    signal.prepare([row])
    want = LocalTrainer(Config(), random_model).score([replace(row, ids=row.seen.ids, mask=_moved(row))])[0]
    np.testing.assert_allclose(row.logp_teacher[row.mask], want[row.seen.at[row.mask]], atol=1e-5)
    assert np.abs(row.logp_teacher - row.logp_old)[row.mask].max() > 1e-3


def _moved(row: Any) -> Any:
    mask = np.zeros(len(row.seen.ids), dtype=bool)
    mask[row.seen.at[row.mask]] = True
    return mask


def dtdd(tau: float, **loss: Any) -> TeacherPhase:
    use = {"dtdd": {"window": 2, "tau": tau, "max_new_tokens": 4}}
    return TeacherPhase(signal="teacher", route="x", use=use, loss={**loss, "ce": {}})


def test_a_takeover_that_never_comes_is_distillation_and_one_at_once_is_imitation(
    worlds, random_model, teachers
) -> None:
    means = Means(renderer=Words())  # type: ignore[arg-type]
    plain, _, _ = train(
        TeacherPhase(signal="teacher", route="x", loss={"k1_pg": {}}), worlds, random_model, teachers[1]
    )
    never, facts, _ = train(dtdd(float("inf"), k1_pg={}), worlds, random_model, teachers[1], means=means)
    assert facts["takeover/frac"] == 0
    for key in plain:
        torch.testing.assert_close(plain[key], never[key], atol=1e-7, rtol=0)
    at_once, facts, _ = train(dtdd(float("-inf"), k1_pg={}), worlds, random_model, teachers[1], means=means)
    imitate, _, _ = train(dtdd(float("-inf"), k1_pg={"coef": 0.0}), worlds, random_model, teachers[1], means=means)
    assert facts["takeover/frac"] == 1 and facts["loss/k1_pg"] == 0 and same(at_once, imitate)


def test_a_takeover_splits_tokens_at_the_windows_start(worlds, random_model, teachers) -> None:
    phase = dtdd(0.0, reverse_kl={})
    bank = ModelBank(LocalTrainer(Config(), copy.deepcopy(random_model)), teachers[1])
    signal = signals.build(phase, worlds, {}, bank, ROUTES, Means(renderer=Words()))  # type: ignore[arg-type]
    signal.begin(0)
    t = rolled(1.0, ("a", "b"), tokens=5)
    (row,) = signal.rows(0, [t])
    row.logp_old = np.where(row.mask, -1.0, 0.0)
    row.logp_old[7:] = (
        50.0  # from here on the teacher likes it much less than the student: windows are (2,3) (4,5) (6,8)
    )
    row.logp_old[:7] = -50.0 * row.mask[:7]
    signal.prepare([row])
    assert row.ids[:6].tolist() == list(t.record.ids[:6]) and 7 <= len(row) <= 10
    assert row.channels["opd"].mask.tolist() == [False] * 2 + [True] * 4 + [False] * (len(row) - 6)
    assert row.channels["ce"].mask.tolist() == [False] * 6 + [True] * (len(row) - 6)
    assert row.scored[0].at.tolist() == [2, 3, 4, 5] and len(row.scored[0].hidden) == 4
    said = continued(teachers[0][0], row.ids[:6].tolist(), 4, (3,), 0.0, 0)
    assert 1 <= len(said) <= 4


def test_trajectory_dropout_changes_what_the_student_reads_alone(worlds, random_model, teachers) -> None:
    def made(rate: float) -> TeacherPhase:
        return TeacherPhase(
            signal="teacher", route="x", use={"dropout": {"rate": rate}}, loss={"reverse_kl": {}}, tis_cap=0.0
        )

    plain, _, _ = train(replace_use(made(0.0)), worlds, random_model, teachers[1])
    none, _, _ = train(made(0.0), worlds, random_model, teachers[1])
    assert same(plain, none)
    found = {}
    for rate in (0.0, 0.6):
        bank = ModelBank(LocalTrainer(Config(), copy.deepcopy(random_model)), teachers[1])
        signal = signals.build(made(rate), worlds, {}, bank, ROUTES, Means(seed=3))
        signal.begin(0)
        t = rolled(1.0, ("a", "b"), tokens=6)
        t = replace(
            t,
            record=replace(
                t.record, roles=tuple("think" if m else r for m, r in zip(t.record.mask, t.record.roles, strict=True))
            ),
        )
        (row,) = signal.rows(0, [t])
        bank.score([row], states=True)
        assert row.seen.ids.tolist() == list(t.record.ids) and row.ids.tolist() == row.seen.ids[row.seen.at].tolist()
        found[rate] = dict(zip(row.seen.at[row.scored[0].at].tolist(), row.scored[0].hidden, strict=True))
    assert set(found[0.6]) < set(found[0.0])
    for at, hidden in found[0.6].items():  # the teacher's states do not depend on what the student dropped
        torch.testing.assert_close(hidden, found[0.0][at], atol=1e-6, rtol=0)


def replace_use(phase: TeacherPhase) -> TeacherPhase:
    return phase.model_copy(update={"use": {}})


def test_a_reference_in_the_loss_and_in_the_reward(worlds, random_model, teachers) -> None:
    loss = {"clipped": {}, "kl_ref": {"coef": 0.1}}
    use = {"kl_penalty": {"coef": 0.01, "estimator": "k3"}}
    phase = RlPhase(signal="group_std", loss=loss, use=use)
    assert signals.needs_bank(phase) and not signals.needs_bank(RlPhase(signal="group_std"))
    _, facts, bank = train(phase, worlds, random_model, [], steps=1, reference=teachers[1][0])
    assert facts["kl_ref/k1"] != 0 and facts["loss/kl_ref"] > 0 and bank.reference == 0


def test_difficulty_keeps_what_is_solved_sometimes() -> None:
    from noria.core.recipe_phases import Difficulty

    assert [k for k in range(9) if keeps(Difficulty(), k / 8)] == [1, 2, 3, 4, 5, 6, 7]
    assert not keeps(Difficulty(), None)


def test_rollouts_begin_as_the_curriculum_says() -> None:
    from noria.stages.roller import Job

    expert = rolled(1.0, ("a", "b", "c", "d"), source="teacher:careful")
    job = Job("g0/0", expert.task, 7)
    back = Hooks(teacher_with({"tcod": {"direction": "back", "every": 2}}), {expert.task.id: expert}, 9)
    assert back.wants_experts
    assert [back.job(job, step).start_turn for step in range(8)] == [3, 3, 2, 2, 1, 1, 0, 0]
    assert back.job(job, 0).start is expert and back.job(job, 6) == job
    assert Hooks(teacher_with({"tcod": {"direction": "back"}}), {}, 9).job(job, 0) == job  # no expert: from the start
    front = Hooks(teacher_with({"tcod": {"direction": "front", "every": 1}}), {}, 3)
    assert [front.job(job, step).max_turns for step in range(5)] == [1, 2, 3, 3, 3]
    assert Hooks(teacher_with({})).job(job, 4) is job


def teacher_with(use: dict[str, Any]) -> TeacherPhase:
    return TeacherPhase(signal="teacher", route="x", use=use)


def test_what_signals_and_teachers_remember_survives_a_saved_state(worlds, random_model, tmp_path: Path) -> None:
    use = {"cut": {"type": "latch", "target": "k1_pg", "metric": "m", "above": 0.0}}
    trainer = LocalTrainer(Config(), copy.deepcopy(random_model))

    def made() -> Any:
        source = ema.build(ema.Config(every=1, decay=0.5))
        bank = ModelBank(LocalTrainer(Config(), copy.deepcopy(random_model)), [source, source], student=trainer)
        return signals.build(teacher_with(use), worlds, {}, bank, ROUTES)

    first, again = made(), made()
    first.observe({"m": 1.0})
    first.bank.tick()
    torch.save(first.state(), tmp_path / "state.pt")
    again.restore(torch.load(tmp_path / "state.pt", weights_only=False))
    assert first.begin(3) == again.begin(3) == {"k1_pg": 0.0} and made().begin(3) == {"k1_pg": 1.0}
    assert again.bank.sources[0].data() == first.bank.sources[0].data()


class Sums(Solved):
    """A world of one turn whose right answer is "7"."""

    def kind(self, message: str) -> str:
        return "steps" if message else "malformed"

    def open(self, task: Task) -> Any:
        return Sum()


class Sum:
    """An episode of one answer."""

    said = ""

    def act(self, message: str) -> None:
        self.said = message

    def grade(self) -> Any:
        from noria.core.types import Outcome

        return Outcome(float(self.said == "7"))

    def close(self) -> None:
        """Nothing is held."""


class Teller(Words):
    """Says of any tokens that they are `text`; remembers what was asked."""

    def __init__(self, text: str) -> None:
        self.text, self.asked = text, list[str]()

    def decode(self, ids: Any) -> str:
        return self.text

    def prompt(self, task: Task) -> Any:
        from noria.tokens.renderer import Piece

        self.asked.append(task.prompt)
        return Piece((0, 1), ("user", "user"))


def srcl(
    text: str, model: Any, teachers: list[Any], ends: tuple[int, ...], rewrites: bool = True
) -> tuple[list[Any], dict[str, float], Teller, dict[str, torch.Tensor]]:
    """Rows, metrics, the renderer and the weights after a step of DCE, with rewrites or without."""
    means = Means(worlds={"ledger": Sums()}, renderer=Teller(text))  # type: ignore[arg-type]
    means.renderer.end_ids = ends  # type: ignore[union-attr]
    use = {"srcl": {"per_step": 2, "max_new_tokens": 3}} if rewrites else {}
    loss = {"forward_kl_topk": {"top_k": 50}} | ({"ce": {}} if rewrites else {})
    phase = TeacherPhase(signal="teacher", route="x", loss=loss, use=use)
    trainer = LocalTrainer(Config(), copy.deepcopy(model))
    bank = ModelBank(LocalTrainer(Config(), copy.deepcopy(model)), teachers, student=trainer)
    signal = signals.build(phase, {}, {}, bank, {"ledger": 0}, means)
    signal.begin(0)
    rows = [row for i in range(3) for row in signal.rows(i, [rolled(1.0, ("long answer",), tokens=5, name=f"r{i}")])]
    rows += signal.rows(3, [rolled(1.0, ("two", "turns"), tokens=5)])
    for row, logp in zip(rows, trainer.score(rows), strict=True):
        row.logp_old = logp
    facts = signal.prepare(rows)
    trainer.configure(1e-3, (0.9, 0.99), 0.0, 1.0)
    facts |= trainer.step(rows, build_terms(phase), signal.begin(0))
    return rows, facts, means.renderer, trainer.model.state_dict()  # type: ignore[return-value]


def test_short_verified_rewrites_are_imitated_and_never_saw_the_solution(random_model, teachers) -> None:
    every = tuple(range(50))  # any token ends a rewrite: it is one token long
    rows, facts, teller, _ = srcl("7", random_model, teachers[1][:1], every)
    assert (facts["rewrite/tried"], facts["rewrite/accepted"], len(rows)) == (2, 2, 6)
    assert facts["loss/ce"] > 0 and all(not row.channels["ce"].mask.any() for row in rows[:4])
    for row in rows[4:]:
        assert row.ids[:2].tolist() == [0, 1] and row.channels["ce"].mask.tolist() == [False, False, True]
        assert set(row.channels) == {"ce"}
    assert len(teller.asked) == 4 and all("golden" not in text for text in teller.asked)
    assert sum("long answer" in text for text in teller.asked) == 2


@pytest.mark.parametrize(("text", "ends"), [("8", tuple(range(50))), ("7", ()), ("", tuple(range(50)))])
def test_no_accepted_rewrite_leaves_distillation_alone(text: str, ends: tuple[int, ...], random_model) -> None:
    """The step is that of a phase without rewrites, to the last bit; the teacher is the self that saw the solution."""
    sources = [[privileged.build(privileged.Config())] for _ in range(2)]
    rows, facts, _, weights = srcl(text, random_model, sources[0], ends)
    assert facts["rewrite/accepted"] == 0 and len(rows) == 4 and facts["loss/ce"] == 0
    _, plain, _, alone = srcl(text, random_model, sources[1], ends, rewrites=False)
    assert facts["loss/forward_kl_topk"] == plain["loss/forward_kl_topk"] > 0 and "loss/ce" not in plain
    assert same(weights, alone) and not same(weights, random_model.state_dict())
