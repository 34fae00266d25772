"""The operands of a calculation stand the wrong way round."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import swap

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "OperationSwapOperands"

_ORDERED = ("-", "/", "//", "%", "**", "<<", ">>", "<", "<=", ">", ">=", "in", "not in", "??")
_NUMBERS = frozenset({"integer", "float", "number", "int_literal", "number_literal", "decimal_integer_literal"})


def changes(code: Code) -> Iterator[Change]:
    """Operators where the order matters, and `+` beside a text. `in` is left to languages where both sides may hold."""
    for found in code.binaries(*_ORDERED, "+"):
        operator = code.text(found.operator)
        if operator in {"in", "not in"} and found.right.kind not in code.syntax.names:
            continue
        texts = {found.left.kind, found.right.kind} & (code.syntax.strings | {"template_string", "binary_operator"})
        if operator == "+" and (not texts or {found.left.kind, found.right.kind} & _NUMBERS):
            continue
        if code.text(found.left) != code.text(found.right):
            yield swap(code, found.node, found.left, found.right)
