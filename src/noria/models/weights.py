"""Weights as bytes that travel between processes, and as checkpoint folders that transformers and vLLM load.

In memory the experts of a mixture are one tensor, in a checkpoint they are many; tied matrices are stored once.
Bytes that travel hold what is in memory, merged with the adapter if there is one; folders hold the published layout.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from noria.core.errors import UserError
from noria.models.load import check_there, load_model
from noria.models.lora import merged_state, plain_names

WEIGHTS = "model.safetensors"
#: Files beside the weights that make a folder a whole checkpoint: configuration, tokenizer, templates.
COMPANIONS = (".json", ".jinja", ".txt", ".model")


def to_bytes(model: Any) -> bytes:
    """The model's tensors as safetensors bytes, tied ones once, an adapter merged in."""
    from safetensors.torch import save

    return save(_stored(model))


def load_into(model: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """Put tensors named as in `to_bytes` into the model; an adapter starts from zero again.

    Raises:
        ValueError: they belong to a model of another shape.
    """
    names = plain_names(model)
    given = {names.get(name, name): tensor for name, tensor in tensors.items()}
    own = {name: tensor.shape for name, tensor in model.state_dict().items()}
    tied = _tied(model)
    # Looked at before anything is copied: a model that has taken half of them is neither the old one nor the new.
    lacking = [name for name in own if name not in given and name not in tied and ".lora_" not in name]
    unexpected = [name for name in given if name not in own]
    if lacking or unexpected:
        raise ValueError(f"weights must fit the model: missing {lacking}, unexpected {unexpected}")
    other = [f"{name} {list(t.shape)} for {list(own[name])}" for name, t in given.items() if t.shape != own[name]]
    if other:
        raise ValueError(f"weights must fit the model: other shapes, {', '.join(other)}")
    model.load_state_dict(given, strict=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B." in name:
                parameter.zero_()


def read(folder: Path) -> bytes:
    """The weights of a checkpoint folder as `to_bytes` gives them, in the dtype in which they are stored.

    Raises:
        UserError: the folder is gone or no checkpoint, or the file of the weights is damaged.
    """
    check_there(folder)
    path = folder / WEIGHTS
    if path.is_file() and _is_plain(folder):
        return path.read_bytes()
    return to_bytes(load_model(folder, dtype=_stored_dtype(folder)))


def write(model: Any, folder: Path, like: Path) -> None:
    """Write a checkpoint that transformers loads as it is: weights from here, everything else from `like`."""
    from safetensors.torch import save_file

    _copy_companions(folder, like)
    save_file(published(model), folder / WEIGHTS, metadata={"format": "pt"})


def write_tensors(tensors: Mapping[str, torch.Tensor], folder: Path, like: Path) -> str:
    """Write tensors named as in `to_bytes` as such a checkpoint; the SHA-256 of the file with the weights."""
    from safetensors.torch import save
    from transformers.core_model_loading import revert_weight_conversion

    _copy_companions(folder, like)
    found = revert_weight_conversion(_empty(like), {name: tensor.contiguous() for name, tensor in tensors.items()})
    data = save(dict(found), metadata={"format": "pt"})
    (folder / WEIGHTS).write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def _copy_companions(folder: Path, like: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in like.iterdir():
        if path.is_file() and path.suffix in COMPANIONS and not path.name.endswith(".index.json"):
            (folder / path.name).write_bytes(path.read_bytes())


def published(model: Any) -> dict[str, torch.Tensor]:
    """The model's tensors under the names and in the shapes of a checkpoint, an adapter merged in."""
    from transformers.core_model_loading import revert_weight_conversion

    return {name: tensor.contiguous() for name, tensor in revert_weight_conversion(model, _stored(model)).items()}


def _stored(model: Any) -> dict[str, torch.Tensor]:
    tied = _tied(model)
    return {name: t.contiguous() for name, t in merged_state(model).items() if name not in tied}


def _tied(model: Any) -> set[str]:
    if not model.config.get_text_config().tie_word_embeddings:
        return set()
    head = model.get_output_embeddings()
    return {f"{name}.weight" for name, module in model.named_modules() if module is head}


@lru_cache(maxsize=64)
def _is_plain(folder: Path) -> bool:
    """Whether the names in the file are those in memory."""
    from safetensors import SafetensorError, safe_open

    model = _empty(folder)
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            found = set(file.keys())
    except SafetensorError as fault:
        raise UserError(
            f"model must be whole: {folder / WEIGHTS} cannot be read ({fault}) - take the checkpoint anew"
        ) from fault
    return found - _tied(model) == set(model.state_dict()) - _tied(model) and not found & _tied(model)


def _empty(folder: Path) -> Any:
    """The model of a checkpoint folder without any weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(str(folder), local_files_only=True))


def _stored_dtype(folder: Path) -> Any:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    named = text.get("dtype") or text.get("torch_dtype") or "float32"
    return "bfloat16" if named == "bfloat16" else "float32"
