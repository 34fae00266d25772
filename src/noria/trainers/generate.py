"""Continues token ids with a model, one sequence at a time: for the few tokens that a learner needs of a teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def continued(
    model: Any, ids: Sequence[int], max_new: int, end_ids: Sequence[int], temperature: float, seed: int
) -> list[int]:
    """New tokens after `ids`, up to and with the first of `end_ids`; temperature 0 takes the likeliest."""
    from transformers import DynamicCache

    generator = torch.Generator().manual_seed(seed % (1 << 63))
    out: list[int] = []
    cache, feed = DynamicCache(config=model.config), torch.tensor([list(ids)])
    with torch.no_grad():
        while len(out) < max_new:
            found = model(input_ids=feed.to(model.device), cache=cache, use_cache=True, logits_to_keep=1)
            logits = found.logits[0, -1].float().cpu()
            if temperature:
                token = int(torch.multinomial((logits / temperature).softmax(0), 1, generator=generator))
            else:
                token = int(logits.argmax())
            out.append(token)
            if token in end_ids:
                break
            feed = torch.tensor([[token]])
    return out
