"""A result is used before it is there."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import keep

LANGUAGES = ("python", "javascript", "typescript")


def changes(code: Code) -> Iterator[Change]:
    """`await x` becomes `x`."""
    for node in code.of(code.syntax.awaits):
        parts = node.parts()
        if parts:
            yield keep(code, node, parts[-1])
