"""Makes the dependency layer of a Python repository: installed packages, a runner, and `python` with both on its path.

    python _python_layer.py '{"needs": […], "without": [top-level names], "about": {"name", "version"}, "path": […]}'

Runs in the layer's folder. Requirements that this interpreter's own environment meets are copied from there; otherwise
pip fetches wheels. Nothing of what is installed is executed.
"""

from __future__ import annotations

import compileall
import importlib.metadata as metadata
import json
import os
import py_compile
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

SITE = Path("site")
#: Hundreds of modules of which a run of tests loads none.
SELDOM = re.compile(r"/pygments/(lexers|styles)/")


def main() -> None:
    given = json.loads(sys.argv[1])
    SITE.mkdir()
    found = _closure(given["needs"])
    if found is None:
        _fetch(given["needs"])
    else:
        for each in found.values():
            _copy(each)
    for name in given["without"]:
        _remove(name)
    _about(given["about"])
    _programs(given["path"])
    shutil.copyfile(Path(__file__).with_name("_pytest_runner.py"), "_pytest_runner.py")
    # Unchecked: nothing in a layer changes, whatever the times of its files say.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(
        "site", quiet=2, invalidation_mode=unchecked, stripdir="site", prependdir="/deps/site", rx=SELDOM
    )
    for folder, _, names in os.walk("."):
        os.chmod(folder, 0o755)
        for name in names:
            place = os.path.join(folder, name)
            if not os.path.islink(place):
                os.chmod(place, 0o755 if os.stat(place).st_mode & stat.S_IXUSR else 0o644)


def _closure(needs: list[str]) -> dict[str, metadata.Distribution] | None:
    """Distributions of this environment that meet all of `needs`, with what those need; None where one is missing."""
    from pip._vendor.packaging.requirements import Requirement  # of pip, which is there in any case

    found: dict[str, metadata.Distribution] = {}
    todo: list[tuple[Any, frozenset[str]]] = [(Requirement(text), frozenset()) for text in needs]
    while todo:
        need, extras = todo.pop()
        if need.marker is not None and not any(need.marker.evaluate({"extra": each}) for each in (extras or {""})):
            continue
        try:
            there = metadata.distribution(need.name)
        except metadata.PackageNotFoundError:
            return None
        if not need.specifier.contains(there.version, prereleases=True) or there.files is None:
            return None
        key = need.name.lower().replace("_", "-")
        if key in found and not need.extras:
            continue
        if any(str(each).endswith(".pth") for each in there.files):
            return None  # an editable install
        found[key] = there
        todo += [(Requirement(text), frozenset(need.extras)) for text in there.requires or ()]
    return found


def _copy(there: metadata.Distribution) -> None:
    for each in there.files or ():
        if ".." in each.parts or "__pycache__" in each.parts:
            continue
        source, target = Path(str(there.locate_file(each))), SITE.joinpath(*each.parts)
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _fetch(needs: list[str]) -> None:
    words = ["-m", "pip", "install", "--quiet", "--target", "site", "--only-binary", ":all:", "--no-compile", *needs]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
        sys.exit(" ".join(said)[:500])


def _remove(name: str) -> None:
    """Take away whatever provides the package under repair, with its metadata."""
    for place in [SITE / name, SITE / f"{name}.py", *SITE.glob(f"{name}.*.so")]:
        if place.is_dir():
            shutil.rmtree(place)
        elif place.exists():
            place.unlink()
    for about in SITE.glob("*.dist-info"):
        record = about / "RECORD"
        listed = record.read_text(encoding="utf-8", errors="replace") if record.is_file() else ""
        if re.search(rf"^{re.escape(name)}(\.py,|/)", listed, re.MULTILINE):
            shutil.rmtree(about)


def _about(about: dict[str, str]) -> None:
    """Metadata of the package under repair, which some packages ask for their own version."""
    folder = SITE / f"{re.sub(r'[-_.]+', '_', about['name'])}-{about['version']}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")


def _programs(path: list[str]) -> None:
    Path("bin").mkdir()
    python = os.path.realpath(sys.executable)
    places = ":".join([*path, "/deps/site"])
    script = f"#!/bin/sh\nPYTHONPATH={places}${{PYTHONPATH:+:$PYTHONPATH}} PYTHONNOUSERSITE=1 exec {python} "
    for name, words in {"python": "", "python3": "", "pytest": "-m pytest "}.items():
        program = Path("bin") / name
        program.write_text(f'{script}{words}"$@"\n')
        program.chmod(0o755)


if __name__ == "__main__":
    main()
