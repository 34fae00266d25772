"""Unpacks Debian packages into the dependency layer, below `unpacked`; nothing is installed and no script of them runs.

python _debian_layer.py PACKAGE…
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path("unpacked")
#: What nobody reads there.
_ASIDE = ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/maven-repo")


def main() -> None:
    ROOT.mkdir(exist_ok=True)
    (ROOT / ".keep").touch()
    if sys.argv[1:]:
        fetch(sys.argv[1:])


def fetch(names: list[str]) -> None:
    """Download and unpack. Ends the program where apt has no such package."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        sys.exit(f"{', '.join(names)}: these are fetched with apt-get, which is missing here")
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            ["apt-get", "download", "-q", *names], cwd=place, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.startswith("E:")]
            sys.exit(" ".join(said)[:300] or "apt-get download failed")
        for each in sorted(Path(place).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(each), str(ROOT)], check=True)
    for folder in _ASIDE:
        shutil.rmtree(ROOT / folder, ignore_errors=True)


if __name__ == "__main__":
    main()
