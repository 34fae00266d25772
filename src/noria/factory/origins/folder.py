"""A folder of this machine, taken as it is."""

from __future__ import annotations

from pathlib import Path

from noria.factory.origins.base import Fetched, Unfetched


class Folder:
    """`PATH`: a folder that is no git repository."""

    def claims(self, source: str) -> bool:
        """Any path that exists, or looks like one."""
        return "/" in source or source in (".", "..") or Path(source).is_dir()

    def fetch(self, source: str, into: Path) -> Fetched:
        """Nothing is copied. The revision is that of the tree, which the layer knows."""
        folder = Path(source).expanduser().resolve()
        if not folder.is_dir():
            raise Unfetched(f"there is no folder {source}")
        return Fetched(folder.name, folder, "")


def build() -> Folder:
    """The origin."""
    return Folder()
