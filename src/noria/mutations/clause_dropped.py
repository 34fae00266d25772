"""A condition of several asks for less than it should."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import keep

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """`a and b` becomes `a`, and `b`; so does `a or b`. Tests against null are `null_check_removed`'s."""
    for found in code.binaries(*code.syntax.conjunctions):
        if not code.asks_null(found.right):
            yield keep(code, found.node, found.left)
        if not code.asks_null(found.left):
            yield keep(code, found.node, found.right)
