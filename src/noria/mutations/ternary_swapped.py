"""A choice between two values takes the other one."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import swap

LANGUAGES = ("python", "javascript", "typescript", "java", "c", "cpp")
SMITH = "TernaryOperatorSwap"


def changes(code: Code) -> Iterator[Change]:
    """One change per choice."""
    for node in code.of(code.syntax.ternaries):
        parts = node.parts()
        if len(parts) == 3:
            yield swap(code, node, parts[0] if code.syntax.name == "python" else parts[1], parts[2])
