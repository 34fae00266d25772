"""What an architecture allows, found by trying it on the loaded model rather than by its name.

Two things decide how a model may be trained and are told nowhere: whether rows in one line are kept apart by a
block-diagonal mask (a recurrent or convolutional layer carries its state over the edge), and how logits come of the
last hidden states (some architectures multiply them by a constant, others bend them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from noria.core.errors import UserError
from noria.models.load import backbone, head_weight

#: Largest relative difference that counts as rounding, by dtype.
ROUNDING = {torch.bfloat16: 5e-2, torch.float16: 1e-2, torch.float32: 1e-4, torch.float64: 1e-6}
#: Kinds of layers whose only connection between positions is attention.
ATTENTION = {"full_attention", "sliding_attention"}


@dataclass(frozen=True, slots=True)
class Traits:
    """`packs`: several rows may share a line. `scale`: logits are hidden states times `head_weight` times this.

    `window` is the longest row in tokens that a causal mask describes exactly, None where there is no bound.
    """

    packs: bool
    scale: float
    window: int | None


@torch.inference_mode()
def probe(model: Any) -> Traits:
    """Try two short rows, together in one line and alone. Draws no random number and changes nothing.

    Raises:
        UserError: logits are neither the product of hidden states and head nor a multiple of it.
    """
    device, size = head_weight(model).device, int(model.config.get_text_config().vocab_size)
    ids = torch.tensor([[1, 5, 3, 4, 2, 6, 3]], device=device) % size
    first = 3
    segment = (torch.arange(ids.shape[1], device=device) >= first)[None]
    positions = torch.cat([torch.arange(first), torch.arange(ids.shape[1] - first)])[None].to(device)
    causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=device).tril()
    together = ((segment[:, :, None] == segment[:, None, :]) & causal)[:, None]
    alone = ids[:, first:]
    packed = _hidden(model, ids, together, positions)[:, first:]
    single = _hidden(model, alone, causal[None, None, : alone.shape[1], : alone.shape[1]], positions[:, first:])
    logits = model(input_ids=alone, use_cache=False).logits
    return Traits(
        packs=layer_kinds(model) <= ATTENTION and _same(packed, single),
        scale=_scale(single @ head_weight(model).t(), logits, model),
        window=_window(model),
    )


def _scale(product: torch.Tensor, logits: torch.Tensor, model: Any) -> float:
    if _same(product, logits):
        return 1.0
    scale = float((product * logits).sum() / (product * product).sum())
    if not scale > 0 or not _same(product * scale, logits):
        raise UserError(
            f"model must give logits that are its last hidden states times one matrix: {type(model).__name__} bends "
            "them or adds to them - use an architecture without logit capping or head bias"
        )
    return scale


def layers_of(model: Any) -> list[str]:
    """The kind of each layer as the architecture names it; models without several kinds have full attention."""
    config = model.config.get_text_config()
    return list(config.to_dict().get("layer_types") or ["full_attention"] * config.num_hidden_layers)


def layer_kinds(model: Any) -> set[str]:
    """The kinds of layers that the model has."""
    return set(layers_of(model))


def _hidden(model: Any, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    hidden: torch.Tensor = backbone(model)(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
    ).last_hidden_state
    return hidden


def _same(got: torch.Tensor, want: torch.Tensor) -> bool:
    scale = want.abs().max().clamp(min=1e-6)
    return float((got - want).abs().max() / scale) < ROUNDING[want.dtype]


def _window(model: Any) -> int | None:
    config = model.config.get_text_config().to_dict()
    window = config.get("sliding_window")
    if window is None or config.get("use_sliding_window") is False:
        return None
    slides = "layer_types" not in config or "sliding_attention" in layer_kinds(model)
    return int(window) if slides else None
