"""What every loss term must hold; a new file in the folder is covered without being named here."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from loss_batches import counts, global_batch, gradients, make, named, of_tokens, term_names

from noria.core import registry
from noria.losses.base import Batch, Denominators, merge_metrics

AGGREGATES = registry.names("aggregates")
OPTIONS = [{**named(name), "balance": balance} for name in AGGREGATES for balance in ("none", "route")]
IDS = [f"{name}-{balance}" for name in AGGREGATES for balance in ("none", "route")]
TERMS = term_names()
every_term = pytest.mark.parametrize("name", TERMS)
every_option = pytest.mark.parametrize("options", OPTIONS, ids=IDS)


def test_the_folder_holds_the_terms() -> None:
    assert {"clipped", "cispo", "ce", "entropy", "kl_ref", "k1_pg", "kl_teacher"} <= set(TERMS)
    assert {"forward_kl_topk", "reverse_kl", "reverse_kl_topk", "jsd", "mse_logits"} <= set(TERMS)


@every_term
def test_says_its_meaning_in_one_line(name: str) -> None:
    module = sys.modules[f"noria.losses.{name}"]
    assert module.__doc__ and "\n" not in module.__doc__.strip()
    assert module.SLOT == "loss" and len(module.SOURCE) > 4
    assert module.FAMILY == make(name).family in ("rl", "opd", "")
    with pytest.raises(ValueError, match="extra"):
        module.Config(no_such_key=1)


def naive_terms(row: dict[str, float], mine: list[float], theirs: list[float], second: list[float]) -> dict[str, float]:
    """Each term's loss of one token under its defaults, in plain Python; logits of all besides the streams."""
    rho, a = math.exp(row["logp"] - row["logp_old"]), row["advantage"]
    k1 = row["logp"] - row["logp_teacher"]
    reference = row["logp"] - row["logp_ref"]
    s, t = softmax(mine), softmax(theirs)
    middle = [(p + q) / 2 for p, q in zip(s, t, strict=True)]
    centred = [x - sum(mine) / len(mine) - y + sum(theirs) / len(theirs) for x, y in zip(mine, theirs, strict=True)]
    conflict = row["solved"] and row["logp_teacher"] - row["logp_old"] < -1.0
    floor = math.log1p(math.exp(10 * (row["logp_old"] - row["logp"]))) / 10
    return {
        "ce": -row["logp"], "entropy": -row["entropy"], "kl_ref": 0.5 * reference**2, "kl_teacher": 0.5 * k1**2,
        "clipped": surrogate(rho, a), "k1_pg": surrogate(rho, -k1), "cispo": -min(rho, 5.0) * a * row["logp"],
        "spod": floor if conflict else surrogate(rho, -k1), "reverse_kl": kl(s, t), "forward_kl_topk": kl(t, s),
        "reverse_kl_topk": kl(s, t), "jsd": 0.5 * kl(s, middle) + 0.5 * kl(t, middle),
        "mse_logits": sum(x * x for x in centred) / len(centred),
        "mixture_kl": kl(softmax([(x + y) / 2 for x, y in zip(mine, second, strict=True)]), t),
    }  # fmt: skip


def surrogate(rho: float, a: float) -> float:
    return -min(rho * a, min(max(rho, 0.8), 1.2) * a)


def softmax(logits: list[float]) -> list[float]:
    total = sum(map(math.exp, logits))
    return [math.exp(x) / total for x in logits]


def kl(p: list[float], q: list[float]) -> float:
    return sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))


@every_term
def test_equals_the_naive_walk_over_tokens(name: str) -> None:
    batch = global_batch(seed=8, scale=0.9)
    total = 0.0
    for teacher in batch.teachers:
        for i, at in enumerate(teacher.positions.tolist()):
            if batch.mask[at]:
                row = {k: v[at].item() for k, v in batch.streams().items() if v.dim() == 1}
                mine = (batch.hidden[at] @ batch.head.load().t()).tolist()
                theirs = (teacher.hidden[i] @ teacher.head.load().t()).tolist()
                second = (batch.auxiliary[at] @ batch.auxiliary_head.load().t()).tolist()
                total += row["weight"] * naive_terms(row, mine, theirs, second)[name]
    got = float(make(name)(batch, counts(batch)).value.detach())
    assert got == pytest.approx(total / float(batch.mask.sum()), abs=1e-12)


@every_term
@every_option
def test_gradient_does_not_depend_on_the_partition(name: str, options: dict[str, object], batch: Batch) -> None:
    loss, denominators = make(name, **options), counts(batch)
    value, grad = gradients(loss, batch, [batch], denominators)
    for cut in ([[0], [1], [2], [3], [4]], [[0, 3], [1, 2, 4]], [[4, 0], [2], [1, 3]]):
        parts = [batch.select(torch.isin(batch.segment, torch.tensor(ids))) for ids in cut]
        other_value, other_grad = gradients(loss, batch, parts, denominators)
        assert other_value == pytest.approx(value, abs=1e-12)
        torch.testing.assert_close(other_grad, grad, atol=1e-12, rtol=0)


@every_term
@every_option
def test_gradient_does_not_depend_on_order_or_padding(name: str, options: dict[str, object], batch: Batch) -> None:
    loss, denominators = make(name, **options), counts(batch)
    value, grad = gradients(loss, batch, [batch], denominators)
    shuffled = batch.select(torch.randperm(len(batch.logp), generator=torch.Generator().manual_seed(1)))
    other_value, other_grad = gradients(loss, batch, [shuffled], counts(shuffled))
    assert other_value == pytest.approx(value, abs=1e-12)
    torch.testing.assert_close(other_grad, grad, atol=1e-12, rtol=0)

    pad = 6

    def padded(stream: torch.Tensor, filler: float) -> torch.Tensor:
        return torch.cat([stream, torch.full((pad, *stream.shape[1:]), filler).to(stream.dtype)])

    fillers = {"mask": 0, "segment": -7, "group": -7, "route": -7}
    streams = {k: padded(v, fillers.get(k, float("nan"))) for k, v in batch.streams().items()}
    wide = replace(batch, **streams)
    other_value, other_grad = gradients(loss, batch, [wide], counts(wide))
    assert other_value == pytest.approx(value, abs=1e-12)
    torch.testing.assert_close(other_grad, grad, atol=1e-12, rtol=0)


@every_term
@every_option
def test_masked_tokens_get_exactly_no_gradient(name: str, options: dict[str, object], batch: Batch) -> None:
    _, grad = gradients(make(name, **options), batch, [batch], counts(batch))
    assert grad[of_tokens(~batch.mask)].eq(0).all()
    assert grad[of_tokens(batch.mask)].ne(0).any()
    nothing = replace(batch, mask=torch.zeros_like(batch.mask))
    value, grad = gradients(make(name, **options), batch, [nothing], counts(nothing))
    assert value == 0 and grad.eq(0).all()


@every_term
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [-1e4, -80.0, 80.0, 1e4])
def test_finite_at_extreme_ratios(name: str, dtype: torch.dtype, gap: float) -> None:
    batch = global_batch(dtype=dtype)
    far = {"logp_old": batch.logp_old - gap, "logp_ref": batch.logp_ref + gap, "logp_mu": batch.logp_mu - gap}
    far["logp_teacher"] = batch.logp_teacher + gap
    far["hidden"] = (batch.hidden.detach() * gap / 10).requires_grad_()
    extreme = replace(batch, **far)
    value, grad = gradients(make(name), extreme, [extreme], counts(batch))
    assert torch.isfinite(torch.tensor(value)) and torch.isfinite(grad).all()
    metrics = make(name)(extreme, counts(batch)).metrics
    assert all(torch.isfinite(metric) for metric in metrics.values())


@every_term
def test_only_policies_get_a_gradient(name: str, batch: Batch) -> None:
    leaves = {
        key: stream.detach().clone().requires_grad_()
        for key, stream in batch.streams().items()
        if stream.is_floating_point() and key not in ("logp", "entropy", "hidden", "auxiliary")
    }
    teachers = []
    for states in batch.teachers:
        leaves[states.head.name] = states.head.load().requires_grad_()
        leaves[f"{states.head.name} states"] = states.hidden.clone().requires_grad_()
        teachers.append(replace(states, hidden=leaves[f"{states.head.name} states"]))
    make(name)(replace(batch, teachers=tuple(teachers), **leaves_of(batch, leaves)), counts(batch)).value.backward()
    assert all(leaf.grad is None for leaf in leaves.values())


def leaves_of(batch: Batch, leaves: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those leaves that are streams of the batch."""
    return {key: leaf for key, leaf in leaves.items() if key in batch.streams()}


@every_term
def test_weights_scale_the_loss(name: str, batch: Batch) -> None:
    value, grad = gradients(make(name), batch, [batch], counts(batch))
    twice, twice_grad = gradients(make(name), batch, [replace(batch, weight=batch.weight * 2)], counts(batch))
    assert twice == pytest.approx(2 * value, rel=1e-12)
    torch.testing.assert_close(twice_grad, 2 * grad, atol=1e-12, rtol=0)


@every_term
def test_metrics_add_up_over_micro_batches(name: str, batch: Batch) -> None:
    denominators, loss = counts(batch), make(name)
    whole = merge_metrics([loss(batch, denominators).metrics])
    parts = [batch.select(batch.segment == i) for i in range(5)]
    cut = merge_metrics([loss(part, denominators).metrics for part in parts])
    assert cut == pytest.approx(whole, abs=1e-12)
    assert all(not metric.requires_grad for metric in loss(batch, denominators).metrics.values())


@every_term
def test_is_the_same_after_it_was_sent_to_another_process(name: str, batch: Batch) -> None:
    here, there = make(name), pickle.loads(pickle.dumps(make(name)))
    (value, grad), (other, other_grad) = (gradients(term, batch, [batch], counts(batch)) for term in (here, there))
    assert other == value and torch.equal(other_grad, grad)


@every_term
def test_float32_agrees_with_float64(name: str) -> None:
    wide, narrow = global_batch(), global_batch(dtype=torch.float32)
    value, grad = gradients(make(name), wide, [wide], counts(wide))
    other, other_grad = gradients(make(name), narrow, [narrow], counts(narrow))
    assert other == pytest.approx(value, abs=1e-5)
    assert other_grad.dtype == torch.float32
    torch.testing.assert_close(other_grad.double(), grad, atol=1e-5, rtol=0)


def test_denominators_of_micro_batches_equal_those_of_the_whole(batch: Batch) -> None:
    parts = [batch.select(batch.segment == i) for i in (3, 0, 4, 1, 2)]
    whole, joined = counts(batch), Denominators.of_batches(parts)
    for name in whole.__dataclass_fields__:
        assert whole.__dict__[name].tolist() == joined.__dict__[name].tolist(), name


def test_terms_are_configured_and_built_without_torch() -> None:
    lines = [f"import noria.losses.{n} as m; m.build(m.Config())" for n in TERMS]
    code = "import sys; sys.modules['torch'] = None\n" + "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
