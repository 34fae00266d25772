"""Programs of this machine that the sandbox is to show, although they lie outside of what it shows anyway."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

#: Where toolchains are seen inside.
PLACE = "/toolchain"
_SHOWN = "/usr/"


def prefix(program: str) -> Path | None:
    """The folder above the `bin` that a program lies in, None where it is not on PATH."""
    found = shutil.which(program)
    return None if found is None else Path(os.path.realpath(found)).parents[1]


def shown(name: str, folder: Path | None) -> tuple[tuple[str, str], ...]:
    """The pair that shows a toolchain's folder, nothing where the sandbox shows it already or it is missing."""
    if folder is None or not folder.is_dir() or f"{folder}/".startswith(_SHOWN):
        return ()
    return ((f"{PLACE}/{name}", str(folder)),)


def path(*names: str) -> str:
    """PATH inside: the layer's own programs, those of toolchains, those of the system."""
    return ":".join(["/deps/bin", *(f"{PLACE}/{name}/bin" for name in names), "/usr/local/bin:/usr/bin:/bin"])
