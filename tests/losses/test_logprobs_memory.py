"""Log-probabilities, entropies and divergences hold less than two chunks of logits at once, forward and backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from loss_batches import counts, make
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from noria.losses import states
from noria.losses.base import Batch
from noria.losses.logprobs import chunked_logprobs
from noria.losses.states import Head, TeacherStates

#: The vocabulary is large enough that a chunk is more than what is never cut, and that all else is small beside it.
TOKENS, VOCABULARY, WIDTH, CHUNK = 256, 1 << 15, 8, 128
OPTIONS: dict[str, dict[str, object]] = {"forward_kl_topk": {"top_k": 16}, "reverse_kl_topk": {"top_k": 16}}


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


def peak_chunks(compute: Callable[[], Tensor]) -> float:
    """Peak of new memory of a value and its gradients, which count too, in chunks [CHUNK, VOCABULARY] of float32."""
    with Live() as live:
        compute().backward()  # type: ignore[no-untyped-call]
    return live.peak / (CHUNK * VOCABULARY * 4)


def draw(rows: int, seed: int) -> Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("with_entropy", [False, True])
def test_log_probabilities_stay_below_two_chunks(with_entropy: bool) -> None:
    hidden, weight = draw(TOKENS, 0), draw(VOCABULARY, 1)
    ids, segment = torch.arange(TOKENS), torch.zeros(TOKENS, dtype=torch.long)

    def compute(chunk: int = CHUNK) -> Tensor:
        logp, entropy = chunked_logprobs(hidden, weight, ids, segment, chunk_tokens=chunk)
        return logp.sum() + entropy.sum() if with_entropy else logp.sum()

    assert 1 <= peak_chunks(compute) < 2
    assert peak_chunks(lambda: compute(TOKENS)) > 2, "the whole at once: the measure sees what it should see"


@pytest.mark.parametrize(
    "name", ["reverse_kl", "forward_kl_topk", "reverse_kl_topk", "jsd", "mse_logits", "mixture_kl"]
)
def test_a_divergence_stays_below_two_chunks(name: str) -> None:
    matrix, second, theirs = (draw(VOCABULARY, seed) for seed in range(3))
    zero, index = torch.zeros(TOKENS), torch.zeros(TOKENS, dtype=torch.long)
    teacher = TeacherStates(
        Head("teacher", theirs.detach), torch.arange(TOKENS), draw(TOKENS, 3).detach(), torch.ones(TOKENS)
    )
    batch = Batch(
        logp=zero, logp_old=zero, logp_mu=zero, advantage=zero, weight=torch.ones(TOKENS), mask=zero == 0,
        segment=index, group=index, route=index, hidden=draw(TOKENS, 4), auxiliary=draw(TOKENS, 5),
        head=Head("student", lambda: matrix, chunk_tokens=CHUNK), auxiliary_head=Head("second", lambda: second),
        teachers=(teacher,),
    )  # fmt: skip
    assert TOKENS * VOCABULARY > states.HELD_LOGITS, "it is cut"
    assert 0.4 < peak_chunks(lambda: make(name, **OPTIONS.get(name, {}))(batch, counts(batch)).value) < 2
    for leaf in (batch.hidden, matrix):
        assert leaf is not None and leaf.grad is not None and leaf.grad.abs().max() > 0
