"""What an `if` does and what its `else` does change places."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import indent, swap

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "ControlIfElseInvert"


def changes(code: Code) -> Iterator[Change]:
    """One change per `if` with an `else` of the same form."""
    for branch in code.branches():
        other = branch.otherwise
        if branch.chained or other is None or other.kind != branch.then.kind:
            continue
        if not code.syntax.braces and (indent(code, branch.then) is None) != (indent(code, other) is None):
            continue
        yield swap(code, branch.node, branch.then, other)
