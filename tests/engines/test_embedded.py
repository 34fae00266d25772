"""The engine against a plain forward pass over the finished sequence."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from noria.core.errors import EngineError
from noria.engines.embedded import Config, EmbeddedEngine, uniforms

END = 7


def reference_logp(model, ids, temperature=1.0):
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0] / temperature
    logp = torch.log_softmax(logits.float(), -1)
    return [float(logp[t - 1, ids[t]]) for t in range(1, len(ids))]


def converse(engine, prompts, turns, max_new=9, pieces=None):
    """Run several turns for each prompt; returns full ids and (position, logp, version) of sampled tokens."""
    full = {i: list(p) for i, p in enumerate(prompts)}
    sampled = {i: [] for i in full}
    left = dict.fromkeys(full, turns)
    waiting = list(full)
    while waiting or any(left.values()):
        while waiting and engine.free:
            i = waiting.pop(0)
            engine.add(i, full[i], max_new, seed=100 + i)
        for c in engine.step():
            start = len(full[c.seq])
            full[c.seq] += c.ids
            sampled[c.seq] += list(zip(range(start, start + len(c.ids)), c.logp, c.versions, strict=True))
            left[c.seq] -= 1
            if left[c.seq]:
                piece = (pieces or {}).get(c.seq, [3 + c.seq % 5, 9, 11])
                full[c.seq] += piece
                engine.add(c.seq, piece, max_new, seed=100 + c.seq)
            else:
                engine.drop(c.seq)
    return full, sampled


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_log_probabilities_equal_a_plain_forward_pass(random_model, temperature):
    engine = EmbeddedEngine(random_model, [END], Config(slots=5, max_tokens=120, prefill_rows=3), temperature)
    prompts = [[(5 * i + k) % 50 for k in range(1 + 3 * i)] for i in range(9)]
    full, sampled = converse(engine, prompts, turns=3)
    for i, ids in full.items():
        want = reference_logp(random_model, ids, temperature)
        assert len(sampled[i]) > 3
        for position, logp, _ in sampled[i]:
            assert logp == pytest.approx(want[position - 1], abs=1e-4)


def test_a_sequence_samples_the_same_whatever_stands_beside_it(random_model):
    alone, _ = converse(EmbeddedEngine(random_model, [END], Config(slots=1, max_tokens=90)), [[4, 5, 6]], 2)
    crowd, _ = converse(
        EmbeddedEngine(random_model, [END], Config(slots=3, max_tokens=90, prefill_rows=1)),
        [[4, 5, 6], [9] * 17, [8, 2], [1] * 5], 2,
    )  # fmt: skip
    assert alone[0] == crowd[0]


def test_sampling_follows_the_distribution(random_model):
    engine = EmbeddedEngine(random_model, [], Config(slots=64, max_tokens=16, prefill_rows=64))
    with torch.no_grad():
        p = torch.softmax(random_model(input_ids=torch.tensor([[4, 5, 6]])).logits[0, -1], -1).numpy()
    counts, n = np.zeros(50), 6000
    for start in range(0, n, 64):
        for seq in range(64):
            engine.add(seq, [4, 5, 6], 1, seed=start + seq)
        for c in engine.step():
            counts[c.ids[0]] += 1
            engine.drop(c.seq)
    drawn = counts.sum()
    # Total variation of an empirical distribution over 50 tokens is about sqrt(50/n)/2 = 0.045.
    assert 0.5 * np.abs(counts / drawn - p).sum() < 0.08


def test_new_weights_take_effect_mid_sequence_and_reset_the_cache(random_model):
    other = copy.deepcopy(random_model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.7)
    engine = EmbeddedEngine(copy.deepcopy(random_model), [], Config(slots=2, max_tokens=60))
    ids = [4, 5, 6]
    engine.add(0, ids, 12, seed=1)
    out = []
    for _ in range(5):
        out += engine.step()
    engine.load(other.state_dict(), version=3)
    while not out:
        out += engine.step()
    full, before, after = [*ids, *out[0].ids], reference_logp(random_model, [*ids, *out[0].ids]), None
    after = reference_logp(other, full)
    assert out[0].versions == (0,) * 5 + (3,) * 7
    for k, (logp, version) in enumerate(zip(out[0].logp, out[0].versions, strict=True)):
        assert logp == pytest.approx((after if version else before)[k + 2], abs=1e-4)


def test_limits_and_misuse(random_model):
    engine = EmbeddedEngine(random_model, [END], Config(slots=1, max_tokens=20))
    engine.add(0, [1] * 15, 50, seed=1)
    with pytest.raises(EngineError, match="no free slot"):
        engine.add(1, [1], 5, seed=1)
    done = []
    while not done:
        done = engine.step()
    assert len(done[0].ids) <= 5
    if len(done[0].ids) == 5:
        with pytest.raises(EngineError, match="no room"):
            engine.add(0, [1], 5, seed=1)
    engine.drop(0)
    engine.drop(99)
    assert engine.free == 1
    with pytest.raises(EngineError, match="don't fit"):
        engine.load({"nonsense": torch.zeros(1)}, 1)


def test_uniforms_are_uniform_and_reproducible():
    u = uniforms(np.arange(20_000), np.zeros(20_000, dtype=int))
    assert np.array_equal(u, uniforms(np.arange(20_000), np.zeros(20_000, dtype=int)))
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 0.005
    along = uniforms(np.full(20_000, 5), np.arange(20_000))
    assert abs(np.corrcoef(along[:-1], along[1:])[0, 1]) < 0.03
