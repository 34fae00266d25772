"""Low-rank adapters (Hu et al. 2021, arXiv:2106.09685) through `peft`, put into a model in place.

W' = W + (alpha / rank) B A, with A random and B zero at the start, so that the first policy is the base. The base is
frozen. Adapters are float32 whatever the base is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from noria.core.errors import UserError

NAME = "default"


def add_adapter(model: Any, rank: int, alpha: float, targets: Sequence[str], seed: int) -> None:
    """Put an adapter on the linear layers whose names end in one of `targets` (all but the head if empty).

    Raises:
        UserError: `peft` is missing, no layer has one of these names, or it is the head's.
    """
    there = _linear_layers(model)
    if unknown := [end for end in targets if not _ends_like(end, model)]:
        raise UserError(
            f"student.trainer.lora_targets must name linear layers of the model other than its head: got {unknown}, "
            f"expected some of {there} - leave it out for all"
        )
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ModuleNotFoundError as fault:
        raise UserError(
            "student.trainer.lora_rank needs the package 'peft', which is missing - pip install 'noria[lora]', or "
            "set lora_rank = 0"
        ) from fault
    chosen = list(targets) or _linear_layers(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=chosen, lora_dropout=0.0, bias="none")
        config.base_model_name_or_path = ""
        try:
            inject_adapter_in_model(config, model)
        except ValueError as fault:
            raise UserError(
                f"student.trainer.lora_targets must name linear layers of the model: got {chosen}, "
                f"expected some of {_linear_layers(model)} - leave it out for all"
            ) from fault
    for name, parameter in model.named_parameters():
        if ".lora_" in name:
            parameter.data = parameter.data.float()


def has_adapter(model: Any) -> bool:
    """Whether `add_adapter` was called on it."""
    return any(".lora_A." in name for name, _ in model.named_parameters())


def adapter_state(model: Any) -> dict[str, torch.Tensor]:
    """The adapter's own tensors by their names in the model."""
    return {name: p.detach() for name, p in model.named_parameters() if ".lora_" in name}


@torch.no_grad()
def load_adapter(model: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """Put back what `adapter_state` gave.

    Raises:
        ValueError: it is the state of another adapter.
    """
    own = adapter_state(model)
    if {name: t.shape for name, t in own.items()} != {name: t.shape for name, t in tensors.items()}:
        raise ValueError("adapter must be that of the saved state: set lora_rank and lora_targets as they were")
    for name, tensor in own.items():
        tensor.copy_(tensors[name])


def plain_names(model: Any) -> dict[str, str]:
    """Names of the base model's tensors to their names in a model with an adapter, where these differ."""
    return {_plain(name): name for name in model.state_dict() if ".base_layer." in name}


def merged_state(model: Any) -> dict[str, torch.Tensor]:
    """The state of the model as if it had no adapter: W' in the place of W, in W's dtype."""
    state = {_plain(name): t.detach() for name, t in model.state_dict().items() if ".lora_" not in name}
    for name, module in model.named_modules():
        if hasattr(module, "lora_A") and NAME in module.lora_A:
            a, b = module.lora_A[NAME].weight.detach(), module.lora_B[NAME].weight.detach()
            base = module.base_layer.weight.detach()
            state[f"{name}.weight"] = (base.float() + module.scaling[NAME] * (b @ a)).to(base.dtype)
    return state


def save_adapter(model: Any, folder: Path) -> None:
    """Write the adapter as `peft` loads it over the model that it was trained from."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"base_model.model.{name.replace(f'.{NAME}.', '.')}": t.contiguous().clone()
        for name, t in adapter_state(model).items()
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    model.peft_config[NAME].save_pretrained(str(folder))


def _plain(name: str) -> str:
    return name.replace(".base_layer.", ".")


def _linear_layers(model: Any) -> list[str]:
    return sorted({name.rpartition(".")[2] for name in _linear_names(model)})


def _linear_names(model: Any) -> list[str]:
    """Names of what may be adapted. The head is read as a plain matrix: an adapter on it would learn nothing."""
    head = model.get_output_embeddings()
    return [name for name, m in model.named_modules() if isinstance(m, torch.nn.Linear) and m is not head]


def _ends_like(end: str, model: Any) -> bool:
    """Whether linear layers other than the head have a name that ends so, part by part as `peft` compares."""
    return bool(end) and any(f".{name}".endswith(f".{end}") for name in _linear_names(model))
