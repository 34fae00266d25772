"""The trainer against plain forward passes: scores, losses, gradients, bad steps, checkpoints, continuation."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from noria.losses import ce, clipped
from noria.stages.snapshot import load_state, save_state
from noria.trainers.local import BadStep, Config, LocalTrainer, build, with_current_reference
from noria.trainers.rows import Row

CE = {"ce": ce.build(ce.Config())}
ONE = {"ce": 1.0}
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def some_rows(seed: int, n: int = 7, vocab: int = 50) -> list[Row]:
    """Rows of several lengths; the mask has holes and the first token is never trained."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        size = int(rng.integers(4, 24))
        mask = (rng.random(size) < 0.6) & (np.arange(size) > 0)
        mask[-1] = True
        row = Row.plain(rng.integers(0, vocab, size).tolist(), mask.astype(int).tolist(), group=i // 2)
        row.advantage, row.weight = rng.normal(size=size), rng.uniform(0.5, 1.5, size)
        row.logp_old = np.where(mask, -rng.uniform(2, 5, size), 0.0)
        row.logp_mu = row.logp_old
        out.append(row)
    return out


def alone(model: Any, row: Row, temperature: float = 1.0) -> np.ndarray:
    """log pi of a row's tokens by a plain forward pass over that row."""
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(row.ids)[None]).logits[0] / temperature
    logp = torch.log_softmax(logits.double(), -1)
    out = np.zeros(len(row))
    for t in range(1, len(row)):
        out[t] = float(logp[t - 1, row.ids[t]]) if row.mask[t] else 0.0
    return out


def trainer_of(model: Any, lr: float = 1e-2, grad_norm: float = 0.0, line_tokens: int = 40) -> LocalTrainer:
    trainer = LocalTrainer(Config(line_tokens=line_tokens, chunk_tokens=16), copy.deepcopy(model))
    trainer.configure(lr, (0.9, 0.99), 0.0, grad_norm)
    return trainer


def weights_of(trainer: LocalTrainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trainer.model.state_dict().items()}


def gradients(trainer: LocalTrainer) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in trainer.model.named_parameters()}


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scores_equal_a_plain_forward_pass_on_each_row_alone(random_model, temperature):
    rows = some_rows(1)
    for tokens in (1, 60, 8192):
        for row, got in zip(rows, trainer_of(random_model).score(rows, temperature, tokens), strict=True):
            np.testing.assert_allclose(got, alone(random_model, row, temperature), atol=1e-5)


def test_the_loss_of_a_pack_is_that_of_its_members(random_model):
    rows = some_rows(2)
    sums = [-alone(random_model, row).sum() for row in rows]
    counts = [int(row.mask.sum()) for row in rows]
    for row in rows:
        row.weight = np.ones(len(row))
    got = trainer_of(random_model, line_tokens=200).step(rows, CE, ONE)
    assert got["loss/ce"] == pytest.approx(sum(sums) / sum(counts), abs=1e-5)
    for row, total, count in zip(rows[:2], sums, counts, strict=False):
        assert trainer_of(random_model).step([row], CE, ONE)["loss/ce"] == pytest.approx(total / count, abs=1e-5)


@pytest.mark.parametrize("aggregate", ["token", "sequence", "prompt"])
def test_gradients_do_not_depend_on_micro_batches_or_order(random_model, aggregate):
    model, rows = random_model.double(), some_rows(3)
    terms = {
        "clipped": clipped.build(clipped.Config(aggregate=aggregate)),
        "ce": ce.build(ce.Config(aggregate=aggregate)),
    }
    coefficients = {"clipped": 1.0, "ce": 0.3}
    whole = trainer_of(model)
    facts = whole.step(rows, terms, coefficients, tokens=8192)
    want = gradients(whole)
    assert max(float(g.abs().max()) for g in want.values()) > 1e-3
    for tokens, order in ((1, range(7)), (50, [3, 0, 6, 2, 5, 1, 4]), (8192, reversed(range(7)))):
        other = trainer_of(model)
        again = other.step([rows[i] for i in order], terms, coefficients, tokens=tokens)
        for name, value in gradients(other).items():
            # Norms round to float32 in both directions: what rows share is rounded once for all of them.
            torch.testing.assert_close(value, want[name], atol=5e-7, rtol=1e-5)
        assert again == pytest.approx(facts, abs=1e-6)


def test_a_gradient_is_that_of_the_naive_loss(random_model):
    model, rows = random_model.double(), some_rows(4, n=3)
    trainer = trainer_of(model)
    trainer.step(rows, CE, ONE)
    naive = copy.deepcopy(model)
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row in rows:
        logp = torch.log_softmax(naive(input_ids=torch.from_numpy(row.ids)[None]).logits[0], -1)
        for t in range(1, len(row)):
            if row.mask[t]:
                total = total - row.weight[t] * logp[t - 1, row.ids[t]]
                count += 1
    (total / count).backward()
    for name, parameter in naive.named_parameters():
        torch.testing.assert_close(gradients(trainer)[name], parameter.grad, atol=1e-10, rtol=1e-8)


def test_a_bad_step_changes_nothing(random_model):
    trainer, rows = trainer_of(random_model), some_rows(5)
    trainer.step(rows, CE, ONE)
    before, moments = weights_of(trainer), copy.deepcopy(trainer.optimiser.state_dict())
    sick = some_rows(5)
    sick[3].weight[sick[3].mask] = np.nan
    with pytest.raises(BadStep, match="loss/ce"):
        trainer.step(sick, CE, ONE, tokens=30)
    for name, value in weights_of(trainer).items():
        assert torch.equal(value, before[name]), name
    for key, state in trainer.optimiser.state_dict()["state"].items():
        assert torch.equal(state["exp_avg"], moments["state"][key]["exp_avg"])
    # The next step is as if the bad one had never been.
    twin = trainer_of(random_model)
    twin.step(rows, CE, ONE)
    assert trainer.step(rows, CE, ONE) == twin.step(rows, CE, ONE)
    for name, value in weights_of(trainer).items():
        assert torch.equal(value, weights_of(twin)[name]), name


def test_gradients_are_clipped_to_the_norm(random_model):
    rows = some_rows(6)
    free, bound = trainer_of(random_model), trainer_of(random_model, grad_norm=0.01)
    norm = free.step(rows, CE, ONE)["grad_norm"]
    assert bound.step(rows, CE, ONE)["grad_norm"] == pytest.approx(norm) and norm > 0.01
    for name, value in gradients(bound).items():
        torch.testing.assert_close(value, gradients(free)[name] * 0.01 / norm, atol=1e-7, rtol=1e-3)


def test_the_current_reference_gives_no_push_where_teacher_and_student_agree(random_model):
    trainer, rows = trainer_of(random_model), some_rows(7)
    for row, logp in zip(rows, trainer.score(rows), strict=True):
        row.logp_old = row.logp_mu = row.logp_teacher = logp
    terms = {"clipped": clipped.build(clipped.Config())}
    got = trainer.step(rows, terms, {"clipped": 1.0}, annotate=with_current_reference)
    assert got["grad_norm"] < 1e-4  # rounding alone: the advantages above are of the order 1
    rows[0].logp_teacher = rows[0].logp_teacher + rows[0].mask
    assert (
        trainer_of(random_model).step(rows, terms, {"clipped": 1.0}, annotate=with_current_reference)["grad_norm"]
        > 1e-2
    )


def test_a_checkpoint_loads_in_transformers(random_model, tiny_folder: Path, tmp_path: Path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    like = tmp_path / "like"
    random_model.save_pretrained(like)
    for name in TOKENIZER:
        shutil.copyfile(tiny_folder / name, like / name)
    trainer = build(Config(), like)
    trainer.configure(1e-2, (0.9, 0.99), 0.0, 1.0)
    trainer.step(some_rows(8), CE, ONE)
    trainer.save(tmp_path / "out", like)
    loaded = AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"), local_files_only=True, dtype=torch.float32)
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.equal(loaded(input_ids=ids).logits, trainer.model(input_ids=ids).logits)
        assert not torch.allclose(loaded(input_ids=ids).logits, random_model(input_ids=ids).logits, atol=1e-3)
    for name in (*TOKENIZER, "config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (like / name).read_bytes()
    text = "Move 12 from A1 to B2."
    assert AutoTokenizer.from_pretrained(str(tmp_path / "out")).decode(
        AutoTokenizer.from_pretrained(str(like)).encode(text)
    ) == text  # fmt: skip


def test_a_restored_trainer_continues_bit_by_bit(random_model, tmp_path: Path):
    rows = [some_rows(seed) for seed in range(6)]
    whole = trainer_of(random_model)
    for batch in rows[:3]:
        whole.step(batch, CE, ONE)
    save_state(tmp_path / "state.pt", whole.state())
    facts = [whole.step(batch, CE, ONE) for batch in rows[3:]]
    again = trainer_of(random_model)
    again.restore(load_state(tmp_path / "state.pt"))
    assert [again.step(batch, CE, ONE) for batch in rows[3:]] == facts
    for name, value in weights_of(again).items():
        assert torch.equal(value, weights_of(whole)[name]), name


def test_weights_of_another_shape_are_refused(random_model):
    from safetensors.torch import load, save

    trainer = trainer_of(random_model)
    tensors = load(trainer.weights())
    assert "lm_head.weight" not in tensors  # tied: stored once
    less = {name: value for name, value in tensors.items() if "layers.1.mlp" not in name}
    with pytest.raises(ValueError, match="weights must fit the model"):
        trainer.load_weights(save(less))
    with pytest.raises(ValueError, match="weights must fit the model"):
        trainer.load_weights(save(tensors | {"model.layers.9.more": torch.zeros(2)}))
    trainer.load_weights(save(tensors))
