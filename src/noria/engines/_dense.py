"""A forward pass for the plain decoder (RMSNorm, rotary attention, SwiGLU) with little between its matrix products.

At a model of a few million parameters half the time of a decoding step goes into the many small calls of the general
forward pass. Here projections that read one input are one product, and the query heads that share a key head are
queries of one attention row. Weights are not copied: the model's own parameters become views into the joined ones, so
that loading new weights into the model changes both. `dense` gives one only after it has equalled the model's own
forward pass on a few tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from noria.engines._slots import SlotLayer
from noria.models.load import backbone

#: Architectures that are this decoder, by `model_type`, and rotary tables that don't depend on the length.
FAMILIES = {"llama", "qwen3"}
STATIC_ROPE = {"default", "linear", "llama3"}
#: Largest relative difference from the model's own forward pass that counts as rounding.
ROUNDING = 1e-4


class _Layer:
    """One decoder layer's joined weights."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.before, self.after = layer.input_layernorm, layer.post_attention_layernorm
        self.qkv = _joined(attention.q_proj, attention.k_proj, attention.v_proj)
        self.gate_up = _joined(mlp.gate_proj, mlp.up_proj)
        self.o, self.down = attention.o_proj, mlp.down_proj
        self.norms = (attention.q_norm, attention.k_norm) if hasattr(attention, "q_norm") else None


class Dense:
    """See the module. Takes what the backbone takes: ids, positions and mask of a slice of rows, and their cache."""

    def __init__(self, model: Any, length: int) -> None:
        body, config = backbone(model), model.config
        self.embed, self.norm = body.embed_tokens, body.norm
        self.layers = [_Layer(layer) for layer in body.layers]
        self.heads, self.kv = config.num_attention_heads, config.num_key_value_heads
        self.dim = body.layers[0].self_attn.head_dim
        cos, sin = body.rotary_emb(self.embed.weight, torch.arange(length, device=self.embed.weight.device)[None])
        # rotate(x) = x * cos + swap(x) * sin, where swap exchanges the halves and the first half's sine is negative.
        self.cos, self.sin = cos[0], torch.cat([-sin[0, :, : self.dim // 2], sin[0, :, self.dim // 2 :]], -1)

    def __call__(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: Sequence[SlotLayer]) -> Tensor:
        """Hidden states [B, T, D] after the final norm; `ids` and `positions` [B, T], bool `mask` [B, 1, T, W]."""
        b, t = ids.shape
        group = self.heads // self.kv
        x = self.embed(ids)
        cos, sin = self.cos[positions][:, :, None], self.sin[positions][:, :, None]
        seen = torch.zeros(mask.shape, dtype=x.dtype, device=x.device).masked_fill_(~mask, float("-inf"))
        if t > 1:
            seen = seen[:, :, None].expand(b, 1, group, t, -1).reshape(b, 1, group * t, -1)
        for layer, held in zip(self.layers, cache, strict=True):
            heads = linear(_normed(x, layer.before), layer.qkv).view(b, t, self.heads + 2 * self.kv, self.dim)
            q, k, v = torch.split(heads, [self.heads, self.kv, self.kv], 2)
            if layer.norms:
                q, k = _normed(q, layer.norms[0]), _normed(k, layer.norms[1])
            q, k = self._rotated(q, cos, sin), self._rotated(k, cos, sin)
            keys, values = held.update(k.transpose(1, 2), v.transpose(1, 2))
            # [B, T, kv, group, dim] -> [B, kv, group * T, dim]: one row of attention per key head.
            q = q.view(b, t, self.kv, group, self.dim).permute(0, 2, 3, 1, 4).reshape(b, self.kv, group * t, self.dim)
            out = scaled_dot_product_attention(q, keys, values, attn_mask=seen)
            out = out.view(b, self.kv, group, t, self.dim).permute(0, 3, 1, 2, 4).reshape(b, t, -1)
            x = x + linear(out, layer.o.weight)
            gate, up = linear(_normed(x, layer.after), layer.gate_up).chunk(2, -1)
            x = x + linear(silu(gate).mul_(up), layer.down.weight)
        return _normed(x, self.norm)

    def _rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return torch.addcmul(x * cos, x.roll(self.dim // 2, -1), sin)


def _normed(x: Tensor, norm: Any) -> Tensor:
    return rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


def _joined(*layers: Any) -> Tensor:
    """Matrices with one input as one; the layers' own become views into it."""
    whole = torch.cat([layer.weight.detach() for layer in layers])
    at = 0
    for layer in layers:
        layer.weight.data = whole[at : at + len(layer.weight)]
        at += len(layer.weight)
    return whole


def _fits(model: Any) -> bool:
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in FAMILIES
        and rope.get("rope_type") in STATIC_ROPE
        and config.hidden_act == "silu"
        and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        and model.dtype == torch.float32
        and not any(name.endswith("bias") for name, _ in model.named_parameters())
    )


@torch.inference_mode()
def dense(model: Any, length: int) -> Dense | None:
    """The fast forward pass of a model for sequences of at most `length` tokens, or None where it has none."""
    if not _fits(model) or length < 3:
        return None
    found, device = Dense(model, length), model.device
    ids = torch.tensor([[1, 5, 3, 4], [2, 6, 3, 7]], device=device)[:, : length - 1] % model.config.vocab_size
    t = ids.shape[1]
    positions = torch.arange(t, device=device).expand(2, t)
    mask = torch.ones(t, t, dtype=torch.bool, device=device).tril().expand(2, 1, t, t)
    cache = [SlotLayer(2, t) for _ in found.layers]
    parts = []
    for part in (slice(0, t - 1), slice(t - 1, t)):  # a prompt, then one token after it
        for layer in cache:
            layer.aim(0, 2, positions[:, part], part.stop)
        parts.append(found(ids[:, part], positions[:, part], mask[:, :, part, : part.stop], cache))
    want = backbone(model)(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False)
    want = want.last_hidden_state
    error = (torch.cat(parts, 1) - want).abs().max() / want.abs().max().clamp(min=1e-6)
    return found if float(error) < ROUNDING else None
