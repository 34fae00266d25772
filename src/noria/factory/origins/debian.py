"""An unpacked Debian source: `debian:FOLDER`, with the folder `debian/` that names it; its packaging is left out."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from noria.factory.origins.base import Fetched, Unfetched


class Debian:
    """The origin."""

    def claims(self, source: str) -> bool:
        """`debian:…`, or a folder with `debian/control`."""
        return source.startswith("debian:") or (Path(source).expanduser() / "debian" / "control").is_file()

    def fetch(self, source: str, into: Path) -> Fetched:
        """A copy without the packaging: its patches would show what was mended."""
        folder = Path(source.removeprefix("debian:")).expanduser()
        control = folder / "debian" / "control"
        if not control.is_file():
            raise Unfetched(f"{folder} has no debian/control: unpack it with `dpkg-source -x`")
        named = re.search(r"(?m)^Source:\s*(\S+)", control.read_text(encoding="utf-8", errors="replace"))
        changelog = folder / "debian" / "changelog"
        head = changelog.read_text(encoding="utf-8", errors="replace")[:200] if changelog.is_file() else ""
        version = re.search(r"\(([^)]+)\)", head)
        tree = into / "tree"
        shutil.copytree(folder, tree, symlinks=True, ignore=shutil.ignore_patterns("debian", ".pc", ".git"))
        return Fetched(named[1] if named else folder.name, tree, version[1] if version else "")


def build() -> Debian:
    """The origin."""
    return Debian()
