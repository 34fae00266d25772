"""A comparison or a connective says the opposite."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "OperationFlipOperator"

_OPPOSITE = {
    "<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==", "===": "!==", "!==": "===", "is": "is not",
    "is not": "is", "in": "not in", "not in": "in", "and": "or", "or": "and", "&&": "||", "||": "&&",
}  # fmt: skip


def changes(code: Code) -> Iterator[Change]:
    """One change per comparison of two, and per `and` or `or` of two truth values."""
    for found in code.binaries(*_OPPOSITE):
        if found.operator.kind == "in" and code.syntax.name != "python":
            continue
        yield Change(found.node, (replace(found.operator, _OPPOSITE[code.text(found.operator)]),))
