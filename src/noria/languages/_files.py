"""The files of a repository, and what several languages ask of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

#: Folders that are neither sources nor tests, anywhere, and those at the root alone.
ASIDE = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", "target", ".noria"})
ASIDE_AT_ROOT = frozenset({
    "build", "dist", "docs", "doc", "examples", "example", "benchmarks", "benchmark", "bench", "benches", "scripts",
    "tools", "ci", "debian", "coverage", "site", "website", "vendor", "third_party",
})  # fmt: skip
#: Files of which a line is read here are at most so long.
MOST_READ = 1 << 20


def files(root: Path) -> list[str]:
    """Relative paths in order, without the folders that hold neither sources nor tests."""
    found: list[str] = []
    for folder, inner, names in os.walk(root):
        below = Path(folder).relative_to(root).as_posix()
        aside = ASIDE | ASIDE_AT_ROOT if below == "." else ASIDE
        inner[:] = [name for name in inner if name not in aside and not name.startswith(".")]
        found += [name if below == "." else f"{below}/{name}" for name in names]
    return sorted(found)


def text(root: Path, path: str) -> str:
    """The text of a file, "" where there is none or it is long."""
    place = root / path
    try:
        return place.read_text(encoding="utf-8", errors="replace") if place.stat().st_size <= MOST_READ else ""
    except OSError:
        return ""


def ending(paths: Iterable[str], suffixes: Sequence[str]) -> list[str]:
    """Those with one of the endings."""
    return [path for path in paths if path.endswith(tuple(suffixes))]


def files_of(tests: Sequence[str], known: Sequence[str]) -> list[str]:
    """The files that hold tests with ids `path::name`, of those that are known, each once."""
    wanted = {test.partition("::")[0] for test in tests}
    return [path for path in known if path in wanted]
