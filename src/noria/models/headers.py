"""What a checkpoint's files say of themselves before any weight is read: sizes, shapes, and whether they fit."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

from noria.core.errors import UserError

INDEX = "model.safetensors.index.json"
#: How the matrix of token embeddings is called.
_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte|word_embeddings|embed_in|tok_embeddings|embeddings)\.weight$")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h)\.(\d+)\.")

Shapes = dict[str, tuple[int, ...]]


def read_shapes(folder: Path, field: str) -> Shapes:
    """Shapes of the tensors in a folder by name, from the headers of its safetensors files alone.

    Raises:
        UserError: a file is not as long as its header says, or one that the index names is missing.
    """
    found: Shapes = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= _header(path, field)
    index = folder / INDEX
    if not (folder / "model.safetensors").is_file() and index.is_file():
        try:
            named = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            files = sorted(set(named.values()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
            raise UserError(f"{field} must be whole: {str(index)!r} cannot be read ({fault}) - copy it again") from None
        missing = [file for file in files if not (folder / str(file)).is_file()]
        if missing:
            raise UserError(
                f"{field} must be whole: {str(folder)!r} lacks {len(missing)} of {len(files)} files of weights, as "
                f"{missing[0]} - copy them again"
            )
    return found


def check_config(folder: Path, shapes: Shapes, field: str) -> dict[str, Any]:
    """The configuration of the text model, which the weights must fit.

    Raises:
        UserError: config.json is damaged, or speaks of another vocabulary or of more layers than the weights have.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        known = isinstance(config["model_type"], str)
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as fault:
        raise UserError(
            f"{field} must be whole: {str(path)!r} names no model_type ({fault!r}) - copy it again"
        ) from None
    if not known:
        raise UserError(f"{field} must be whole: model_type in {str(path)!r} must be a text - copy the file again")
    inner = config.get("text_config")
    text: dict[str, Any] = {**config, **inner} if isinstance(inner, dict) else config
    rows, size = embedding_rows(shapes), text.get("vocab_size")
    if rows is not None and isinstance(size, int) and rows != size:
        raise UserError(
            f"{field} must fit together: {str(path)!r} says vocab_size = {size} and the embeddings have {rows} rows - "
            "take config.json and weights of one model"
        )
    count = text.get("num_hidden_layers")
    there = {int(match[1]) for name in shapes if (match := _LAYER.search(name))}
    if there and isinstance(count, int) and (missing := sorted(set(range(count)) - there)):
        raise UserError(
            f"{field} must fit together: {str(path)!r} says num_hidden_layers = {count} and the weights lack layer "
            f"{missing[0]} - take config.json and weights of one model"
        )
    return text


def embedding_rows(shapes: Shapes) -> int | None:
    """How many tokens have an embedding, None where no matrix is known by its name."""
    found = [shape[0] for name, shape in shapes.items() if _EMBEDDING.search(name) and len(shape) == 2]
    return found[0] if len(found) == 1 else None


def _header(path: Path, field: str) -> Shapes:
    """The header of one file. Raises UserError unless the file is as long as it says."""
    size = path.stat().st_size
    shapes: Shapes = {}
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > size:
                raise ValueError
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        promised = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
        shapes = {name: tuple(entry["shape"]) for name, entry in header.items()}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        promised = -1
    if promised != size:
        said = "its header cannot be read" if promised < 0 else f"its header promises {promised:,}"
        raise UserError(f"{field} must be whole: {str(path)!r} has {size:,} bytes, {said} - copy or make it again")
    return shapes
