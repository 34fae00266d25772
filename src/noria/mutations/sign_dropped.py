"""A sign is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import keep

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """`-x` becomes `x`, unless `slice_shifted` has it."""
    for node in code.of(code.syntax.negations | {"unary_operator"}):
        parts = node.parts()
        if (
            node.children[0].kind == "-"
            and parts
            and node.field not in {"subscript", "index"}
            and parts[-1].kind != "slice"
        ):
            yield keep(code, node, parts[-1])
