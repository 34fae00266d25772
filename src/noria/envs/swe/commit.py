"""The repository of git that a policy works in: one commit of the tree as it finds it, and nothing else."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from noria.core.history import GIT, one_commit


def committed(tree: Path, files: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """The files of `.git` for a tree with some files in the place of its own, None = not there.

    Nothing where this machine has no git. The tree is read alone: its files are linked to, or copied, elsewhere.

    Raises:
        UserError: git does not take the tree.
    """
    if shutil.which("git") is None:
        return {}
    with tempfile.TemporaryDirectory(prefix="noria-swe-") as place:
        root = Path(place, "tree")
        shutil.copytree(tree, root, symlinks=True, copy_function=_linked)
        for path, data in files.items():
            mode = (root / path).stat().st_mode & 0o777 if (root / path).exists() else 0o644
            (root / path).unlink(missing_ok=True)
            if data is not None:
                (root / path).write_bytes(data)
                (root / path).chmod(mode)
        (root / GIT).mkdir()
        one_commit(root)
        own = root / GIT
        return {
            path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(own.rglob("*")) if path.is_file()
        }


def _linked(source: str, target: str) -> str:
    """The same file under another name, or a copy where it lies on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
