"""`noria models`: bring models from elsewhere into checkpoint folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from noria.core.errors import UserError

app = typer.Typer(help="Bring models into checkpoint folders.", no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def group() -> None:
    """Bring models into checkpoint folders."""


@app.command(name="import")
def import_(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="smollm2, a .gguf file, or a checkpoint's folder.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the checkpoint is written; new or empty.")],
    dtype: Annotated[str, typer.Option(help="Of the weights that are written: float32 or bfloat16.")] = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Write a model as a checkpoint that recipes, transformers and vLLM load.

    Example: noria models import smollm2 models/smollm2
    """
    if dtype not in ("float32", "bfloat16"):
        raise UserError(f"--dtype must be float32 or bfloat16: got {dtype!r} - leave it out for float32")
    from noria.models.importer import import_model

    facts = import_model(source, folder, dtype)  # type: ignore[arg-type]
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    for key, value in facts.items():
        print(f"{key} {value}")
