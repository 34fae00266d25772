"""Shared fixtures: one torch thread, a tiny random Qwen3, the built-in tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import noria

torch.set_num_threads(1)
TINY = Path(noria.__file__).parent / "data" / "tiny"


#: Files that take minutes: begun last, one worker would end alone with them (see `--no-loadscope-reorder`).
FIRST = ("test_loop.py", "test_survival.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in FIRST)


@pytest.fixture(scope="session")
def tiny_folder() -> Path:
    """The built-in model's folder."""
    return TINY


@pytest.fixture(scope="session")
def renderer(tiny_folder: Path):
    """The built-in model's renderer."""
    from noria.tokens.renderer import Renderer

    return Renderer.load(tiny_folder)


@pytest.fixture
def random_model():
    """A random Qwen3 of two layers with grouped heads, in float32."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=48, tie_word_embeddings=True, max_position_embeddings=256, attn_implementation="sdpa",
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4.0)
    return model.eval()
