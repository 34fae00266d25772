"""Names of models to checkpoint folders."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from noria.core.errors import UserError

BUILTIN = Path(__file__).resolve().parents[1] / "data"
#: Files of which a checkpoint has one, in the order in which they are looked for.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


def resolve_model(name: str, field: str = "model") -> Path:
    """`builtin:<name>` is a model shipped in the package, anything else a folder; `field` names it in errors.

    Raises:
        UserError: there is no such model, or the folder is not a checkpoint.
    """
    if name.startswith("builtin:"):
        folder = BUILTIN / name.removeprefix("builtin:")
        if not (folder / "model.safetensors").is_file():
            there = ", ".join(f"builtin:{p.parent.name}" for p in sorted(BUILTIN.glob("*/model.safetensors")))
            raise UserError(f"{field} must name a shipped model: got {name!r} - there is {there or 'none'}")
        return folder
    folder = Path(name)
    missing = [file for file in ("config.json", "tokenizer.json") if not (folder / file).is_file()]
    if not any((folder / file).is_file() for file in WEIGHTS):
        missing.append(WEIGHTS[0])
    if missing:
        raise UserError(
            f"{field} must be builtin:tiny or a checkpoint folder: {str(folder)!r} lacks {', '.join(missing)} - "
            "give the folder that save_pretrained, a run or `noria models import` wrote"
        )
    for path in sorted(folder.glob("*.safetensors")):
        _check_whole(path, field)
    return folder


def _check_whole(path: Path, field: str) -> None:
    """Raise UserError unless a safetensors file is as long as its own header says."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > size:
                raise ValueError
            header = json.loads(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        promised = 8 + length + max(ends, default=0)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError):
        promised = -1
    if promised != size:
        said = "its header cannot be read" if promised < 0 else f"its header promises {promised:,}"
        raise UserError(f"{field} must be whole: {str(path)!r} has {size:,} bytes, {said} - copy or make it again")
