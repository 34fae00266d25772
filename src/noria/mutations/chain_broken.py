"""A calculation loses one of its operands."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import keep

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "OperationBreakChains"

_NEUTRAL = {"+": ("0",), "-": ("0",), "*": ("1", "1.0"), "/": ("1", "1.0"), "//": ("1",), "|": ("0",), "<<": ("0",)}


def changes(code: Code) -> Iterator[Change]:
    """Keeping the left, and for calculations that commute in type the right; not where the operand was neutral."""
    for found in code.binaries("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"):
        operator = code.text(found.operator)
        neutral = _NEUTRAL.get(operator, ())
        if code.text(found.right) not in neutral:
            yield keep(code, found.node, found.left)
        if code.text(found.left) not in neutral and operator not in {"%", "<<", ">>"}:
            yield keep(code, found.node, found.right)
