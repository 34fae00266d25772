"""Two policies in one step: who moves, by what, and what stays of them in a saved state."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from test_local_trainer import some_rows, weights_of

from noria.core.errors import UserError
from noria.losses import mixture_kl, reverse_kl
from noria.losses.base import Loss
from noria.trainers.auxiliary import PairedTrainer, Second
from noria.trainers.local import BadStep, Config, LocalTrainer
from noria.trainers.rows import Row, Scored, trained_positions

SETTINGS = Config(line_tokens=40, chunk_tokens=16)
ONE = {"kl": 1.0}


def model(seed: int, width: int = 32) -> Any:
    """A random Qwen3 over fifty tokens."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=50, hidden_size=width, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=48, tie_word_embeddings=True, max_position_embeddings=256, attn_implementation="sdpa",
    )  # fmt: skip
    made = Qwen3ForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(4.0)
    return made


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Rows that a teacher has scored."""
    found, teacher = some_rows(3), LocalTrainer(SETTINGS, model(1, 24))
    for row, hidden in zip(found, teacher.states(found), strict=True):
        row.scored = [Scored(teacher.head("teacher"), hidden, trained_positions(row))]
    return found


def pair(lr: float | None = None, grad_norm: float = 0.0) -> PairedTrainer:
    made = PairedTrainer(SETTINGS, model(2), Second(SETTINGS, model(5, 16)), lr, "five")
    made.configure(1e-2, (0.9, 0.99), 0.0, grad_norm)
    return made


def mixed(weight: float = 0.5) -> dict[str, Loss]:
    return {"kl": mixture_kl.build(mixture_kl.Config(weight=weight))}


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_with_all_the_weight_the_anchor_takes_the_step_of_plain_distillation(rows: list[Row]) -> None:
    """To the last bit, and the second policy stays."""
    both, alone = pair(), LocalTrainer(SETTINGS, model(2))
    alone.configure(1e-2, (0.9, 0.99), 0.0, 0.0)
    for _ in range(2):
        mine = both.step(rows, mixed(1.0), ONE)
        plain = alone.step(rows, {"kl": reverse_kl.build(reverse_kl.Config())}, ONE)
        assert mine.pop("auxiliary/grad_norm") == 0
        assert mine == plain
    assert equal(weights_of(both), weights_of(alone))
    assert equal(weights_of(both.second), dict(model(5, 16).state_dict()))


def test_both_learn_and_the_divergence_of_the_mixture_falls(rows: list[Row]) -> None:
    both = pair()
    before = weights_of(both), weights_of(both.second)
    facts = [both.step(rows, mixed(), ONE) for _ in range(12)]
    assert all(fact["grad_norm"] > 0 and fact["auxiliary/grad_norm"] > 0 for fact in facts)
    assert facts[-1]["loss/kl"] < 0.5 * facts[0]["loss/kl"]
    assert not equal(before[0], weights_of(both)) and not equal(before[1], weights_of(both.second))


def test_how_a_batch_is_cut_changes_neither(rows: list[Row]) -> None:
    whole, cut = pair(), pair()
    one, other = whole.step(rows, mixed(), ONE, 0.7), cut.step(rows, mixed(), ONE, 0.7, tokens=30)
    for key in ("loss/kl", "grad_norm", "auxiliary/grad_norm"):
        assert one[key] == pytest.approx(other[key], rel=1e-4)


def test_a_frozen_second_policy_is_read_and_stays(rows: list[Row]) -> None:
    frozen, moving = pair(lr=0.0), pair()
    facts, others = frozen.step(rows, mixed(), ONE), moving.step(rows, mixed(), ONE)
    assert facts["loss/kl"] == others["loss/kl"] and facts["grad_norm"] == others["grad_norm"]
    assert facts["auxiliary/grad_norm"] == 0
    assert equal(weights_of(frozen), weights_of(moving))
    assert equal(weights_of(frozen.second), dict(model(5, 16).state_dict()))


def test_its_learning_rate_keeps_its_proportion() -> None:
    both = pair(lr=5e-3)
    both.set_lr(1e-3)
    assert [group["lr"] for group in both.second.optimiser.param_groups] == [pytest.approx(5e-4)]
    assert [group["lr"] for group in both.optimiser.param_groups] == [1e-3]


def test_a_loss_that_does_not_ask_leaves_it_alone(rows: list[Row]) -> None:
    both = pair()
    terms = mixed() | {"plain": reverse_kl.build(reverse_kl.Config())}
    facts = both.step(rows, terms, {"kl": 0.0, "plain": 1.0})
    assert "auxiliary/grad_norm" not in facts
    assert equal(weights_of(both.second), dict(model(5, 16).state_dict()))


def test_a_bad_gradient_of_either_changes_neither(rows: list[Row]) -> None:
    both = pair()
    before = copy.deepcopy((weights_of(both), weights_of(both.second)))
    hook = next(both.second.model.parameters()).register_hook(lambda grad: grad * float("inf"))
    with pytest.raises(BadStep, match=r"the auxiliary policy is not - lower auxiliary\.lr"):
        both.step(rows, mixed(), ONE)
    hook.remove()
    hook = next(both.model.parameters()).register_hook(lambda grad: grad * float("inf"))
    with pytest.raises(BadStep, match="a step must be finite"):
        both.step(rows, mixed(), ONE)
    hook.remove()
    assert equal(before[0], weights_of(both)) and equal(before[1], weights_of(both.second))
    assert both.step(rows, mixed(), ONE)["auxiliary/grad_norm"] > 0


def test_a_saved_state_goes_on_with_the_bits_of_both(rows: list[Row]) -> None:
    calm, first, again = pair(grad_norm=0.1), pair(grad_norm=0.1), pair(grad_norm=0.1)
    for _ in range(2):
        calm.step(rows, mixed(), ONE)
        first.step(rows, mixed(), ONE)
    again.restore(copy.deepcopy(first.state()))
    assert calm.step(rows, mixed(), ONE) == again.step(rows, mixed(), ONE)
    assert equal(weights_of(calm), weights_of(again)) and equal(weights_of(calm.second), weights_of(again.second))
    other = PairedTrainer(SETTINGS, model(2), Second(SETTINGS, model(6, 16)), None, "six")
    other.configure(1e-2, (0.9, 0.99), 0.0, 0.0)
    with pytest.raises(UserError, match=r"auxiliary\.model must be what the phase began with"):
        other.restore(first.state())


def test_what_is_sampled_from_and_saved_is_the_anchor(rows: list[Row]) -> None:
    both = pair()
    both.step(rows, mixed(), ONE)
    alone = LocalTrainer(SETTINGS, model(3))
    alone.load_weights(both.weights())
    assert equal(weights_of(alone), weights_of(both))
    for mine, theirs in zip(both.score(rows), alone.score(rows), strict=True):
        assert mine.tolist() == theirs.tolist()
