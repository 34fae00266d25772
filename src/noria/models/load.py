"""Checkpoint folders to causal language models; the one place where a model is read from disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from noria.core.errors import UserError

Dtype = Literal["float32", "bfloat16"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_model(folder: Path, dtype: Dtype = "float32", device: str = "cpu") -> Any:
    """A causal LM from a checkpoint folder, in evaluation mode; nothing is downloaded.

    Of a checkpoint that also sees or hears, the text model is taken.

    Raises:
        UserError: the folder is gone, or no checkpoint of a causal LM that the installed transformers knows, or this
            machine has no such device.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    _check_device(device)
    check_there(folder)
    logging.disable_progress_bar()
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            str(folder), local_files_only=True, dtype=DTYPES[dtype], attn_implementation="sdpa",
            output_loading_info=True,
        )  # fmt: skip
    except (ValueError, KeyError, OSError, RuntimeError) as fault:
        raise UserError(
            f"model must be a causal LM that the installed transformers can load: {str(folder)!r} is not "
            f"({str(fault).splitlines()[0]}) - check config.json, or update transformers"
        ) from fault
    missing = sorted(found["missing_keys"])
    if missing:  # they would begin as noise
        raise UserError(
            f"model must be whole: the weights in {str(folder)!r} lack {missing[0]} and {len(missing) - 1} more of "
            "what config.json promises - take config.json and weights of one model"
        )
    return model if device == "cpu" else model.to(device)


def check_there(folder: Path) -> None:
    """Raises UserError where the folder holds no checkpoint, or does so no longer."""
    if not (folder / "config.json").is_file():
        raise UserError(
            f"model must be the folder of a checkpoint: {str(folder)!r} has no config.json, or is gone - put it back "
            "and resume the run"
        )


def _check_device(device: str) -> None:
    try:
        kind, index = torch.device(device).type, torch.device(device).index or 0
    except RuntimeError:
        kind, index = "", 0
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if kind not in ("cpu", "cuda") or index >= count:
        raise UserError(
            f"device must be cpu, cuda or cuda:N of this machine: got {device!r}, and torch sees "
            f"{torch.cuda.device_count()} CUDA devices - use another, or a build of torch with CUDA"
        )


def backbone(model: Any) -> Any:
    """The part of a causal LM that gives the last hidden states."""
    return model.base_model


def head_weight(model: Any) -> torch.Tensor:
    """The matrix [V, D] from last hidden states to logits."""
    weight: torch.Tensor = model.get_output_embeddings().weight
    return weight
