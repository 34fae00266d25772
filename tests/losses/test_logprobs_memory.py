"""Chunked log-probabilities hold at most two chunks of logits at once, forward and backward."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from noria.losses.logprobs import chunked_logprobs

TOKENS, VOCABULARY, WIDTH, CHUNK = 256, 500, 8, 16


class Live(TorchDispatchMode):
    """Counts the bytes of live storages made inside it, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key = storage._cdata
                if key not in self.sizes:
                    self.sizes[key] = storage.nbytes()
                    weakref.finalize(storage, self.sizes.pop, key, None)
        self.peak = max(self.peak, sum(self.sizes.values()))
        return out


def peak_chunks(chunk: int, with_entropy: bool) -> float:
    """Peak of new memory in units of one [CHUNK, VOCABULARY] block of logits."""
    gen = torch.Generator().manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH, generator=gen, requires_grad=True)
    weight = torch.randn(VOCABULARY, WIDTH, generator=gen)
    ids = torch.randint(0, VOCABULARY, (TOKENS,), generator=gen)
    segment = torch.zeros(TOKENS, dtype=torch.long)
    with Live() as live:
        logp, entropy = chunked_logprobs(hidden, weight, ids, segment, chunk_tokens=chunk)
        (logp.sum() + entropy.sum() if with_entropy else logp.sum()).backward()
    return live.peak / (CHUNK * VOCABULARY * 4)


def test_peak_is_two_chunks_whatever_the_number_of_tokens() -> None:
    small = 12 * TOKENS * WIDTH * 4 / (CHUNK * VOCABULARY * 4)  # hidden-sized and per-token tensors
    for with_entropy in (False, True):
        assert 1.5 <= peak_chunks(CHUNK, with_entropy) <= 2 + small
    assert peak_chunks(TOKENS, True) > 16, "the whole at once: the measure sees what it should see"
