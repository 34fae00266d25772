"""Aggregations and denominators against naive references; golden vectors V1 and V15."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from examples import needed
from loss_batches import counts, global_batch, make, named

from noria.core import registry
from noria.losses.base import Batch, Denominators, LossConfig, reduce


def rows_of(batch: Batch) -> list[dict[str, float]]:
    rows = [{k: v[t].item() for k, v in batch.streams().items() if v.dim() == 1} for t in range(len(batch.logp))]
    return [row for row in rows if row["mask"]]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def naive(rows: list[dict[str, float]], how: str, constant: int) -> float:
    """Cross entropy of `rows`, weighted, aggregated the slow way."""

    def losses(key: str) -> list[list[float]]:
        ids = sorted({row[key] for row in rows})
        return [[-row["logp"] * row["weight"] for row in rows if row[key] == i] for i in ids]

    if how == "token":
        return mean([-row["logp"] * row["weight"] for row in rows])
    if how == "sequence":
        return mean([mean(own) for own in losses("segment")])
    if how == "prompt":
        return mean([mean(own) for own in losses("group")])
    return mean([sum(own) / constant for own in losses("segment")])


@pytest.mark.parametrize("balance", ["none", "route"])
@pytest.mark.parametrize("how", ["token", "sequence", "prompt", "constant"])
def test_equals_the_naive_reference(how: str, balance: str, batch: Batch) -> None:
    constant = {"constant_tokens": 32} if how == "constant" else {}
    got = make("ce", aggregate=how, balance=balance, **constant)(batch, counts(batch)).value
    rows = rows_of(batch)
    if balance == "route":
        expected = mean([naive([row for row in rows if row["route"] == r], how, 32) for r in (0, 1)])
    else:
        expected = naive(rows, how, 32)
    assert float(got.detach()) == pytest.approx(expected, abs=1e-12)


def flat(values: list[float], segment: list[int], route: list[int] | None = None) -> Batch:
    n = len(values)
    one, index = torch.ones(n, dtype=torch.float64), torch.tensor(segment)
    logp = -torch.tensor(values, dtype=torch.float64)
    return Batch(
        logp=logp, logp_old=logp, logp_mu=logp, advantage=one, weight=one, mask=one.bool(),
        segment=index, group=index, route=torch.tensor(route or [0] * n),
    )  # fmt: skip


@pytest.mark.parametrize("cut", [[2], [1, 5], [], [9]])
def test_v1_the_token_mean_is_global_for_every_partition(cut: list[int]) -> None:
    batch = flat([1.0, 1.0] + [4.0] * 8, [0, 0] + [1] * 8)
    denominators = counts(batch)
    pieces = torch.tensor_split(torch.arange(10), cut)
    value = sum(float(make("ce")(batch.select(piece), denominators).value) for piece in pieces)
    assert value == pytest.approx(3.4, abs=1e-12)


@pytest.mark.parametrize("name", registry.names("aggregates"))
def test_every_aggregate_says_what_it_is_and_where_it_is_from(name: str) -> None:
    module = registry.resolve("aggregates", name)
    assert module.SLOT == "aggregate" and len(module.SOURCE) > 4
    assert module.__doc__ and "\n" not in module.__doc__.strip()
    with pytest.raises(ValueError, match="extra"):
        module.Config(**{**needed(module.Config), "no_such_key": 1})


@pytest.mark.parametrize("name", registry.names("aggregates"))
def test_every_aggregate_is_linear_with_coefficients_of_the_whole_batch(name: str, batch: Batch) -> None:
    """Coefficients are finite, not negative, without gradient, and the same whatever else is in the micro-batch."""
    built, denominators = LossConfig(**named(name)).aggregation(), counts(batch)
    whole = built.scale(batch, denominators)
    assert torch.isfinite(whole.coefficient).all() and (whole.coefficient >= 0).all()
    assert not whole.coefficient.requires_grad and float(whole.denominator) > 0
    assert whole.per_route.shape == denominators.route_tokens.shape
    for piece in torch.randperm(len(batch.logp), generator=torch.Generator().manual_seed(2)).split(3):
        part = built.scale(batch.select(piece), denominators)
        assert part.coefficient.tolist() == whole.coefficient[piece].tolist()
        assert float(part.denominator) == float(whole.denominator)


def test_the_name_and_the_table_of_an_aggregate_are_one(batch: Batch) -> None:
    for short in ({"aggregate": "prompt"}, {"aggregate": "constant", "constant_tokens": 32}):
        a, b = (make("clipped", **option)(batch, counts(batch)).value for option in (short, named(short["aggregate"])))
        assert float(a.detach()) == float(b.detach())


OWN = """
from pydantic import Field
from noria.aggregates.base import AggregateConfig, Scale

class Config(AggregateConfig):
    power: float = Field(default=0.5, description="of the length")

class Between:
    def __init__(self, config):
        self.config = config

    def scale(self, batch, counts):
        tokens = counts.sequence_tokens.to(batch.logp.dtype).clamp(min=1.0) ** self.config.power
        return Scale(1 / tokens[batch.index("segment")], counts.route_sequences, counts.sequences)

def build(config):
    return Between(config)
"""


def test_an_aggregate_of_the_users_own(batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "aggregates_of_mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "between.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = "aggregates_of_mine.between"
    got = make("ce", aggregate={"type": mine, "power": 1.0})(batch, counts(batch)).value
    assert float(got.detach()) == float(make("ce", aggregate="sequence")(batch, counts(batch)).value.detach())
    loss = make("ce", aggregate=mine)
    rows = rows_of(batch)
    ids = sorted({row["segment"] for row in rows})
    each = [[-row["logp"] * row["weight"] for row in rows if row["segment"] == i] for i in ids]
    expected = mean([sum(own) / len(own) ** 0.5 for own in each])
    assert float(loss(batch, counts(batch)).value.detach()) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("tokens", "did you mean 'token'"), ("no.such.module", "Python cannot find"),
        ({"type": "token", "power": 1}, "unknown key 'power'"), ({"type": "constant"}, "constant_tokens must be given"),
        ({"power": 1}, "write aggregate = "),
    ],
)  # fmt: skip
def test_an_aggregate_that_cannot_be_is_refused(bad: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make("ce", aggregate=bad)


def test_tokens_may_be_cut_anywhere_under_every_aggregate(batch: Batch) -> None:
    per_token = torch.linspace(-1, 1, len(batch.logp), dtype=torch.float64)
    order = torch.randperm(len(batch.logp), generator=torch.Generator().manual_seed(0))
    for how in ("token", "sequence", "prompt"):
        config, denominators = LossConfig(aggregate=how), counts(batch)
        whole, bottom = reduce(per_token, batch, denominators, config)
        parts = [reduce(per_token[i], batch.select(i), denominators, config) for i in order.split(4)]
        assert float(sum(total for total, _ in parts)) == pytest.approx(float(whole), abs=1e-12)
        assert {float(part) for _, part in parts} == {float(bottom)}


def test_a_verbose_route_does_not_drown_a_concise_one() -> None:
    values, segment, route = [1.0] + [3.0] * 99, [0] + [1] * 99, [0] + [1] * 99
    batch = flat(values, segment, route)
    assert float(make("ce", balance="route")(batch, counts(batch)).value) == pytest.approx(2.0)
    assert float(make("ce")(batch, counts(batch)).value) == pytest.approx(2.98)


def test_metrics_are_told_apart_by_route(batch: Batch) -> None:
    metrics = make("reverse_kl")(batch, counts(batch)).metrics
    tokens = counts(batch).route_tokens.tolist()
    each = [float(metrics[f"divergence/{r}"]) for r in (0, 1)]
    assert sum(n * m for n, m in zip(tokens, each, strict=True)) / sum(tokens) == pytest.approx(
        float(metrics["divergence"])
    )
    one = replace(batch, route=batch.route * 0)
    assert set(make("reverse_kl")(one, counts(one)).metrics) == {"divergence"}


def test_a_route_without_tokens_does_not_count() -> None:
    batch = flat([1.0, 3.0, 3.0], [0, 1, 1], [0, 4, 4])
    assert float(make("ce", balance="route")(batch, counts(batch)).value) == pytest.approx(2.0)


def test_longer_answers_do_not_move_other_prompts(batch: Batch) -> None:
    """Under `prompt`, doubling every token of one group leaves the gradient of the other groups as it was."""
    batch = replace(batch, teachers=())
    doubled = batch.select(torch.cat([torch.arange(len(batch.logp)), (batch.group == 1).nonzero().squeeze(1)]))
    loss = make("ce", aggregate="prompt")
    grads = []
    for whole in (batch, doubled):
        (grad,) = torch.autograd.grad(loss(whole, counts(whole)).value, batch.logp, retain_graph=True)
        grads.append(grad[batch.group != 1])
    torch.testing.assert_close(grads[0], grads[1], atol=1e-12, rtol=0)


def test_v15_length_is_the_sum_of_the_mask_not_its_span() -> None:
    mask = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1])
    zero = torch.zeros(15, dtype=torch.long)
    denominators = Denominators.of(mask, zero, zero, zero)
    assert denominators.sequence_tokens.tolist() == [9.0]
    assert float(denominators.action_tokens) == 9.0


def test_weights_do_not_change_the_denominator(batch: Batch) -> None:
    off = replace(batch, weight=batch.weight * (batch.segment != 3))
    rows = rows_of(batch)
    kept = [-row["logp"] * row["weight"] for row in rows if row["segment"] != 3]
    got = make("ce")(off, counts(off)).value
    assert float(got.detach()) == pytest.approx(sum(kept) / len(rows), abs=1e-12)


def test_denominators_count(batch: Batch) -> None:
    got = counts(batch)
    rows = rows_of(batch)
    assert float(got.action_tokens) == len(rows)
    assert (float(got.sequences), float(got.prompts)) == (5, 3)
    assert got.route_sequences.tolist() == [3, 2]
    assert got.route_prompts.tolist() == [2, 1]
    assert got.route_tokens.tolist() == [sum(row["route"] == r for row in rows) for r in (0, 1)]


def test_a_rollout_without_action_tokens_does_not_count() -> None:
    batch = global_batch()
    batch = replace(batch, mask=batch.mask & (batch.segment != 4))
    assert (float(counts(batch).sequences), float(counts(batch).prompts)) == (4, 2)


def test_indices_that_cannot_be_are_refused() -> None:
    one, zero, up = torch.ones(2), torch.zeros(2, dtype=torch.long), torch.arange(2)
    with pytest.raises(ValueError, match="a rollout must have one prompt group"):
        Denominators.of(one, zero, up, zero)
    with pytest.raises(ValueError, match="a prompt group must have one teacher route"):
        Denominators.of(one, up, zero, up)
    with pytest.raises(ValueError, match=">= 0"):
        Denominators.of(one, zero - 1, zero, zero)


def test_streams_of_different_length_are_refused(batch: Batch) -> None:
    with pytest.raises(ValueError, match="of one length"):
        replace(batch, advantage=batch.advantage[1:])


def test_a_missing_stream_is_named(batch: Batch) -> None:
    with pytest.raises(ValueError, match="'logp_ref'"):
        make("kl_ref")(replace(batch, logp_ref=None), counts(batch))


@pytest.mark.parametrize("bad", [{"aggregate": "constant"}, {"constant_tokens": 8}])
def test_the_constant_belongs_to_its_aggregate(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="constant_tokens must be set"):
        make("ce", **bad)
