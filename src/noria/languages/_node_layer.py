"""Makes the dependency layer of a repository of JavaScript or TypeScript: packages of npm, and our runner.

    python _node_layer.py '{"needs": ["tape@^5"], "without": "minimist"}'

Runs in the layer's folder. npm fetches and unpacks; no script of a package runs. Every copy of the package under repair
goes, wherever another one has brought it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

MODULES = Path("node_modules")
RUNNERS = ("_node_runner.cjs", "_node_reporter.mjs", "_node_compile.cjs", "_node_expect.cjs")
_QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--no-save", "--loglevel=error")
_PREFIX = re.compile(r"^npm (ERR!|error)( code| \d{3})?")


def main() -> None:
    given = json.loads(sys.argv[1])
    MODULES.mkdir()
    Path("package.json").write_text('{"private": true}\n')
    if given["needs"]:
        words = ["npm", "install", *_QUIET, "--", *given["needs"]]
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            said = [_PREFIX.sub("", line).strip() for line in done.stderr.splitlines() if "A complete log" not in line]
            sys.exit(f"npm error: {' '.join(filter(None, dict.fromkeys(said)))}"[:500])
    (MODULES / ".package-lock.json").unlink(missing_ok=True)
    _remove(given["without"])
    (MODULES / ".keep").touch()
    for name in RUNNERS:
        shutil.copyfile(Path(__file__).with_name(name), name)


def _remove(name: str) -> None:
    inside = [place.parent for place in MODULES.rglob("package.json") if _names(place) == name]
    for folder in inside:
        shutil.rmtree(folder, ignore_errors=True)


def _names(place: Path) -> str:
    """The name of the package whose root this file marks, "" elsewhere."""
    above = place.parent.parent
    if above.name != "node_modules" and not above.name.startswith("@"):
        return ""
    try:
        return str(json.loads(place.read_text(encoding="utf-8", errors="replace")).get("name", ""))
    except (OSError, ValueError, AttributeError):
        return ""


if __name__ == "__main__":
    main()
