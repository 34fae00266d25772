"""Reads and writes Harbor's task folders.

instruction.md  task.toml  environment/  tests/test.sh  solution/solve.sh  steps/<name>/{instruction.md,tests,…}
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noria.core.errors import UserError
from noria.envs.harbor import histories, toml
from noria.envs.harbor.schema import Sheet, read_sheet

SHEET, INSTRUCTION = "task.toml", "instruction.md"
#: Bytes and files of one task at most.
MAX_BYTES, MAX_FILES = 32 << 20, 5000
#: Marks that keep benchmarks out of training data; they stand before an instruction and are not part of it.
_CANARY = re.compile(r"<!--.*canary.*-->|#.*canary.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class File:
    """Bytes of a file, and whether it may be executed."""

    data: bytes
    executable: bool = False


Files = Mapping[str, File]


@dataclass(frozen=True, slots=True)
class StepFolder:
    """One folder below `steps/`."""

    instruction: str
    tests: Files = field(default_factory=dict)
    solution: Files = field(default_factory=dict)
    workdir: Files = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Folder:
    """A task folder in memory. `steps` go by the names of the sheet; `further` is what the format only tolerates.

    `cut` says, in words, what of histories was taken out when it was read.
    """

    name: str
    sheet: Sheet
    instruction: str
    environment: Files
    tests: Files
    solution: Files
    steps: Mapping[str, StepFolder] = field(default_factory=dict)
    further: Files = field(default_factory=dict)
    cut: tuple[str, ...] = ()

    def digest(self) -> str:
        """SHA-256 over all that the folder says, in hex."""
        seen = hashlib.sha256()
        for path, file in _laid_out(self):
            for part in (path.encode(), b"x" if file.executable else b"-", file.data):
                seen.update(len(part).to_bytes(8, "big") + part)
        return seen.hexdigest()


def find_folders(path: Path) -> list[Path]:
    """Task folders at or below `path`, sorted. Raises UserError where there is none."""
    if (path / SHEET).is_file():
        return [path]
    found = [sheet.parent for sheet in sorted(path.rglob(SHEET)) if sheet.is_file()] if path.is_dir() else []
    # What lies inside a task belongs to it.
    outer = [each for each in found if not any(above in found for above in each.parents)]
    if not outer:
        raise UserError(
            f"path must hold task folders of Harbor: found no {SHEET} at or below '{path}' - check the path"
        )
    return outer


def read_folder(path: Path, keep_history: bool = False) -> Folder:
    """A task folder; repositories that its policy will see have one commit, unless their history is to be kept.

    Raises:
        UserError: a file that the format needs is missing or no plain file, the sheet is refused, or git is missing.
    """
    sheet = read_sheet(_text(path / SHEET), f"{path.name}/{SHEET}")
    seen = histories.Seen((), frozenset()) if keep_history else histories.look(path)
    files = _files(path, seen)
    plain = {name: (file.data, file.executable) for name, file in files.items()} if seen.repositories else {}
    for tree in seen.repositories:
        files |= {name: File(data) for name, data in histories.made_anew(path, tree, plain).items()}
    steps: dict[str, StepFolder] = {}
    for step in sheet.steps or []:
        place = f"steps/{step.name}/"
        if place + INSTRUCTION not in files:
            raise UserError(f"{path.name} must have {place}{INSTRUCTION}: step {step.name!r} is in its {SHEET}")
        parts = [_below(files, f"{place}{part}/") for part in ("tests", "solution", "workdir")]
        steps[step.name] = StepFolder(_decoded(files, place + INSTRUCTION), *parts)
    if not steps and INSTRUCTION not in files:
        raise UserError(f"{path.name} must have {INSTRUCTION} - add it, or [[steps]]")
    kept = ("environment/", "tests/", "solution/", "steps/")
    return Folder(
        sheet.task.name if sheet.task else path.name,
        sheet,
        _decoded(files, INSTRUCTION) if INSTRUCTION in files else "",
        _below(files, "environment/"),
        _below(files, "tests/"),
        _below(files, "solution/"),
        steps,
        {p: f for p, f in files.items() if not p.startswith(kept) and p not in (SHEET, INSTRUCTION)},
        seen.notes(),
    )


def write_folder(folder: Folder, path: Path) -> None:
    """Write a task into a folder that is not there yet. Raises UserError where it is."""
    if path.exists():
        raise UserError(f"--out must not hold '{path.name}' yet: got '{path}' - remove it, or name another folder")
    for name, file in _laid_out(folder):
        place = path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
        if file.executable:
            place.chmod(0o755)


def plain_instruction(text: str) -> str:
    """The instruction as a policy sees it: without leading canary marks."""
    lines = text.split("\n")
    while lines and (_CANARY.fullmatch(lines[0].strip()) or not lines[0].strip()):
        lines.pop(0)
    return "\n".join(lines).rstrip()


def written(sheet: Sheet) -> str:
    """The sheet as TOML, with what it says and no defaults."""
    data: dict[str, Any] = {"schema_version": sheet.schema_version}
    return toml.dumps(data | sheet.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def _laid_out(folder: Folder) -> Iterator[tuple[str, File]]:
    yield SHEET, File(written(folder.sheet).encode())
    if folder.instruction:
        yield INSTRUCTION, File(folder.instruction.encode())
    groups = {"environment": folder.environment, "tests": folder.tests, "solution": folder.solution}
    for name, step in folder.steps.items():
        yield f"steps/{name}/{INSTRUCTION}", File(step.instruction.encode())
        for part, files in (("tests", step.tests), ("solution", step.solution), ("workdir", step.workdir)):
            groups[f"steps/{name}/{part}"] = files
    for place, files in groups.items():
        for path in sorted(files):
            yield f"{place}/{path}", files[path]
    for path in sorted(folder.further):
        yield path, folder.further[path]


def _files(root: Path, seen: histories.Seen) -> dict[str, File]:
    found: dict[str, File] = {}
    room = MAX_BYTES
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        mode = path.lstat().st_mode
        if name.partition("/")[0] == ".git" or stat.S_ISDIR(mode) or seen.passes(name):
            continue
        if not stat.S_ISREG(mode):
            raise UserError(f"{root.name} must hold plain files alone: {name} is a link or a device - copy it in")
        room -= path.stat().st_size
        if room < 0 or len(found) >= MAX_FILES:
            raise UserError(f"{root.name} must have at most {MAX_FILES} files of {MAX_BYTES >> 20} MiB together")
        found[name] = File(path.read_bytes(), bool(mode & 0o111))
    return found


def _below(files: Files, place: str) -> dict[str, File]:
    return {path[len(place) :]: file for path, file in files.items() if path.startswith(place)}


def _decoded(files: Files, path: str) -> str:
    try:
        return files[path].data.decode()
    except UnicodeDecodeError as fault:
        raise UserError(f"{path} must be UTF-8: {fault}") from fault


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise UserError(f"{path.parent.name}/{path.name} must be a file of UTF-8 text: {fault}") from fault
