"""A choice between two values always takes the same."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import keep

LANGUAGES = ("python", "javascript", "typescript", "java", "c", "cpp")
SMITH = "RemoveTernary"


def changes(code: Code) -> Iterator[Change]:
    """One change per value that it may take."""
    for node in code.of(code.syntax.ternaries):
        parts = node.parts()
        if len(parts) == 3:
            yield keep(code, node, parts[0] if code.syntax.name == "python" else parts[1])
            yield keep(code, node, parts[2])
