"""Starts a command as a user without rights, though checkout and interpreter may lie in folders closed to it."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

UID = 47_112


def closed_above(path: Path) -> Path | None:
    """The topmost folder over `path` that others may not enter."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def opening(paths: list[Path], hold: Path) -> str:
    """Shell lines that show `paths` to everyone, in a mount namespace of their own, if folders hide them."""
    hidden = {path: closed_above(path) for path in paths}
    lines = []
    for number, path in enumerate(path for path in paths if hidden[path]):
        lines.append(f"mkdir -p {hold}/{number} && mount --rbind '{path}' {hold}/{number}")
    for folder in sorted({str(folder) for folder in hidden.values() if folder}):
        lines.append(f"mount -t tmpfs -o mode=755 none '{folder}'")
    for number, path in enumerate(path for path in paths if hidden[path]):
        lines.append(f"mkdir -p '{path}' && mount --rbind {hold}/{number} '{path}'")
    return " && ".join(lines) or "true"


def run(script: str, paths: list[Path], hold: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a shell command as user `UID`, who sees `paths`. Needs root. `hold` is an empty folder."""
    drop = f"setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all --"
    whole = f"{opening(paths, hold)} && cd / && exec {drop} {script}"
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", whole],
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
