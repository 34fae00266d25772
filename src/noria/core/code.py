"""Places in source files and edits of them: what mutations, languages and the task factory hand each other."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes `start` to `end` (excluded) of the file at `path`, as it was before any edit, become `text`."""

    path: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Target:
    """A named piece of code that can be mutated: bytes `start:end`, lines from 1, `last_line` included.

    `name` is dotted from the file's top (`Stack.push`). `complexity` is cyclomatic: 1 and one per decision (McCabe,
    1976).
    """

    path: str
    name: str
    kind: Literal["function", "method", "class"]
    start: int
    end: int
    first_line: int
    last_line: int
    complexity: int


@dataclass(frozen=True, slots=True)
class Mutation:
    """One way to break a target. `lines` are those of the original file that the edits touch, from 1."""

    operator: str
    target: Target
    edits: tuple[Edit, ...]
    lines: tuple[int, ...]


def apply(files: Mapping[str, bytes], edits: Iterable[Edit]) -> dict[str, bytes]:
    """The edited files only. All offsets are those of `files`.

    Raises:
        KeyError: an edit is of a file that is not in `files`.
        ValueError: two edits overlap, or one leaves its file.
    """
    by_path: dict[str, list[Edit]] = {}
    for edit in edits:
        by_path.setdefault(edit.path, []).append(edit)
    return {
        path: _edited(files[path], sorted(found, key=lambda e: (e.start, e.end))) for path, found in by_path.items()
    }


def _edited(source: bytes, edits: list[Edit]) -> bytes:
    for one, next_one in pairwise(edits):
        if next_one.start < one.end:
            raise ValueError(f"edits of {one.path} overlap at byte {next_one.start}")
    parts = []
    at = 0
    for edit in edits:
        if not at <= edit.start <= edit.end <= len(source):
            raise ValueError(f"an edit of {edit.path} leaves the file: {edit.start} to {edit.end} of {len(source)}")
        parts += [source[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*parts, source[at:]])


def diff(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """A unified diff with three lines of context that `patch -p1` and `git apply` take; paths in order.

    A file that is missing on one side is made or removed. Files must be UTF-8; a line that ends a file without a
    newline is marked as such.
    """
    parts = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        lines = difflib.unified_diff(
            _lines(old),
            _lines(new),
            f"a/{path}" if old is not None else "/dev/null",
            f"b/{path}" if new is not None else "/dev/null",
        )
        parts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    return "".join(parts)


def _lines(content: bytes | None) -> list[str]:
    """Lines as patches know them: only a newline ends one, whatever else `str.splitlines` would split at."""
    return re.findall(r"[^\n]*\n|[^\n]+", (content or b"").decode())
