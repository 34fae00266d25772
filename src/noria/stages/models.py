"""Names of models to checkpoint folders."""

from __future__ import annotations

from pathlib import Path

from noria.core.errors import UserError
from noria.models.headers import INDEX, read_shapes

BUILTIN = Path(__file__).resolve().parents[1] / "data"
#: Files of which a checkpoint has one, in the order in which they are looked for.
WEIGHTS = ("model.safetensors", INDEX)


def shipped() -> str:
    """The names of the models in the package, one after another."""
    return ", ".join(f"builtin:{path.parent.name}" for path in sorted(BUILTIN.glob("*/model.safetensors")))


def resolve_model(name: str, field: str = "model") -> Path:
    """`builtin:<name>` is a model shipped in the package, anything else a folder; `field` names it in errors.

    Raises:
        UserError: there is no such model, or the folder is not a checkpoint.
    """
    if name.startswith("builtin:"):
        folder = BUILTIN / name.removeprefix("builtin:")
        if not (folder / "model.safetensors").is_file():
            raise UserError(f"{field} must name a shipped model: got {name!r} - there is {shipped() or 'none'}")
        return folder
    folder = Path(name)
    missing = [file for file in ("config.json", "tokenizer.json") if not (folder / file).is_file()]
    if not any((folder / file).is_file() for file in WEIGHTS):
        missing.append(WEIGHTS[0])
    if missing:
        raise UserError(
            f"{field} must be {shipped()} or a checkpoint folder: {str(folder)!r} lacks {', '.join(missing)} - "
            "give the folder that save_pretrained, a run or `noria models import` wrote"
        )
    read_shapes(folder, field)
    return folder
