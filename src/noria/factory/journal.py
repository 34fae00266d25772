"""What was tried, one JSON line each, so that a maker that was killed goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noria.core.errors import UserError

JOURNAL = "journal.jsonl"


class Journal:
    """The lines of `out`. The first holds the settings that decide what is tried; a torn last line is dropped."""

    def __init__(self, out: Path, settings: Mapping[str, Any], name: str = JOURNAL) -> None:
        """Raises UserError: the folder was begun with other settings, or a line is none that was written here."""
        self._path = out / name
        self.known: dict[str, dict[str, Any]] = {}
        lines = _whole_lines(self._path)
        if lines:
            _agree(lines[0]["settings"], settings, out)
        for line in lines[1:]:
            self.known[line["key"]] = line
        self._file = self._path.open("a", encoding="utf-8")
        if not lines:
            self._write({"settings": dict(settings)})

    def note(self, key: str, line: Mapping[str, Any]) -> None:
        """Write down what became of a candidate or a source; it is on the disk when this returns."""
        full = {"key": key, **line}
        self.known[key] = full
        self._write(full)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; what follows the last whole one is cut off."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(whole.splitlines(), 1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        key, kind = ("key", str) if lines else ("settings", dict)
        if not isinstance(line, dict) or not isinstance(line.get(key), kind):
            raise UserError(
                f"{path.name} must be as it was written: line {number} of {path} has no {key} - "
                + ("delete that line: its candidate is tried again" if lines else "use another --out")
            )
        lines.append(line)
    return lines


def _agree(old: Mapping[str, Any], new: Mapping[str, Any], out: Path) -> None:
    for key in (*new, *(key for key in old if key not in new)):
        value = new.get(key)
        if old.get(key) != value:
            raise UserError(
                f"{key} must be as it was when {out} was begun: got {value!r}, it was {old.get(key)!r} - "
                "use it again, or another --out"
            )
