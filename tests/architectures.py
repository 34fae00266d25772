"""Tiny random instances of the architectures that training and decoding are tested on."""

from __future__ import annotations

from typing import Any

import torch

#: Dense, dense, mixture of experts, mixture of experts with linear attention.
NAMES = ("qwen3", "llama", "qwen3_moe", "qwen3_5_moe")
SHAPE = {
    "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "max_position_embeddings": 256, "attn_implementation": "sdpa",
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LINEAR = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4, "shared_expert_intermediate_size": 16,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip


def tiny_model(name: str, seed: int = 0) -> Any:
    """A causal LM of two layers in float32, in evaluation mode, its weights large enough to matter."""
    import transformers as hf

    torch.manual_seed(seed)
    if name == "qwen3":
        config = hf.Qwen3Config(**SHAPE, intermediate_size=48, tie_word_embeddings=True)
        model = hf.Qwen3ForCausalLM(config)
    elif name == "llama":
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**SHAPE, intermediate_size=48, tie_word_embeddings=False))
    elif name == "qwen3_moe":
        config = hf.Qwen3MoeConfig(**SHAPE, **EXPERTS, intermediate_size=48, tie_word_embeddings=False)
        model = hf.Qwen3MoeForCausalLM(config)
    else:
        config = hf.Qwen3_5MoeTextConfig(**SHAPE, **EXPERTS, **LINEAR, tie_word_embeddings=False)
        model = hf.Qwen3_5MoeForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4.0)
    return model.eval()
