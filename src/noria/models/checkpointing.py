"""Activation checkpointing of decoder layers: keep less in the forward pass, compute it again in the backward pass.

`all` keeps a layer's input only. `cheap` keeps the results of matrix products and attention too, so that only cheap
operators (norms, activations, rotations) run twice (selective recomputation, Korthikanti et al. 2022,
arXiv:2205.05198). Values and gradients are those of the plain pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

Mode = Literal["none", "cheap", "all"]
#: Parts of the names of operators whose results `cheap` keeps.
COSTLY = ("mm", "scaled_dot_product", "convolution", "attention")


def recompute(model: Any, mode: Mode) -> None:
    """Make every decoder layer of the model recompute; `none` leaves it as it is."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    if mode == "none":
        return
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.forward = _recomputed(module.forward, mode)


def _recomputed(forward: Callable[..., Any], mode: Mode) -> Callable[..., Any]:
    context: dict[str, Any] = {}
    if mode == "cheap":
        context["context_fn"] = partial(create_selective_checkpoint_contexts, _policy)

    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        # No layer draws random numbers: models are in evaluation mode.
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **context, **kwargs)

    return run


def _policy(_context: Any, operator: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
    name = str(operator).rpartition("aten.")[2].partition(".")[0]
    costly = any(part in name for part in COSTLY)
    return CheckpointPolicy.MUST_SAVE if costly else CheckpointPolicy.PREFER_RECOMPUTE
