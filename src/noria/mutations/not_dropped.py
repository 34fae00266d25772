"""A negation is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import keep

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """`not x` and `!x` become `x`, except for `!!x`."""
    for node in code.of(code.syntax.negations):
        parts = node.parts()
        if node.children[0].kind not in {"not", "!"} or not parts:
            continue
        around = node.parent
        if around is not None and around.kind == node.kind:
            continue
        if parts[-1].kind != node.kind:
            yield keep(code, node, parts[-1])
