"""A copy of the model beside the worker, to prove what a server samples from: the same weights, the same policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from noria.models import weights
from noria.models.load import load_model

#: What the server goes on with: words, so that no one token is nearly certain.
TEXT = "The quick brown fox jumps over the lazy dog. Then it"


class Proof:
    """See the module. The copy is in float32 on the CPU."""

    def __init__(self, folder: Path) -> None:
        self.model = load_model(folder)

    def take(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Raises ValueError where the weights are of another model."""
        weights.load_into(self.model, tensors)

    @torch.inference_mode()
    def score(self, prompt: Sequence[int], ids: Sequence[int], temperature: float) -> list[float]:
        """Log-probabilities of `ids` after the prompt, of the whole policy at this temperature."""
        given = torch.tensor([[*prompt, *ids]])
        logits: Any = self.model(input_ids=given, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
        logp = torch.log_softmax(logits / temperature, dim=-1)
        found: list[float] = logp.gather(1, torch.tensor(list(ids))[:, None])[:, 0].tolist()
        return found
