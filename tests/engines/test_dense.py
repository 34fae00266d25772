"""The fast forward pass of plain decoders against the model's own."""

from __future__ import annotations

import itertools

import pytest
import torch
from architectures import tiny_model

from noria.engines._dense import dense
from noria.engines._slots import SlotLayer

LENGTH = 24


def passes(found, ids, positions, mask, cuts):
    """Hidden states of several passes over the columns between `cuts`, through one cache."""
    cache = [SlotLayer(len(ids) + 1, LENGTH) for _ in found.layers]
    out = []
    for begin, end in itertools.pairwise(cuts):
        for layer in cache:
            layer.aim(1, 1 + len(ids), positions[:, begin:end], end)
        out.append(found(ids[:, begin:end], positions[:, begin:end], mask[:, :, begin:end, :end], cache))
    return torch.cat(out, 1)


@pytest.mark.parametrize("name", ["qwen3", "llama"])
@pytest.mark.parametrize("cuts", [[0, 12], [0, 5, 6, 7, 12], list(range(13))])
@torch.inference_mode()
def test_it_equals_the_models_own_pass_however_the_tokens_come(name, cuts):
    model = tiny_model(name)
    found = dense(model, LENGTH)
    assert found is not None
    ids = torch.randint(0, 50, (3, 12), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(12).expand(3, 12)
    mask = torch.ones(12, 12, dtype=torch.bool).tril().expand(3, 1, 12, 12)
    for seed in (0, 5):  # the weights that it was made with, and others that are loaded later
        model.load_state_dict(tiny_model(name, seed).state_dict())
        want = tiny_model(name, seed).base_model(input_ids=ids).last_hidden_state
        assert torch.allclose(passes(found, ids, positions, mask, cuts), want, atol=2e-5)


@torch.inference_mode()
def test_it_is_offered_for_plain_decoders_in_float32_only():
    assert dense(tiny_model("qwen3_moe"), LENGTH) is None
    assert dense(tiny_model("qwen3_5_moe"), LENGTH) is None
    assert dense(tiny_model("qwen3").to(torch.bfloat16), LENGTH) is None
    gelu = tiny_model("llama")
    gelu.config.hidden_act = "gelu"
    assert dense(gelu, LENGTH) is None


@torch.inference_mode()
def test_a_model_that_computes_otherwise_than_its_name_says_is_left_to_its_own_pass():
    model = tiny_model("llama")
    model.model.layers[0].mlp.act_fn = torch.nn.GELU()
    assert dense(model, LENGTH) is None
