"""Two statements that depend on each other run in the wrong order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from noria.mutations._code import Change, Code
from noria.mutations._edits import indent, swap
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "ControlShuffleLines"

#: Rows of the longer of the two; more would be a large difference for a small slip.
MAX_ROWS = 6


def changes(code: Code) -> Iterator[Change]:
    """One change per two neighbours in a block of which one assigns, or calls on, a name that the other mentions.

    A declaration and its first use don't compile the other way round, so languages with declarations leave those.
    """
    words = code.syntax
    ends = words.returns | words.raises | words.breaks | words.continues
    for block in code.statements():
        for one, other in pairwise(block):
            if not (one.live and other.live) or one.kind in ends or other.kind in ends:
                continue
            if code.syntax.braces and "declaration" in one.kind:
                continue
            if max(one.last_row - one.row, other.last_row - other.row) >= MAX_ROWS or _first(code, one):
                continue
            if indent(code, one) is None or indent(code, other) is None:
                continue
            if {one.kind, other.kind} & (words.functions | words.classes | {"decorated_definition"}):
                continue
            if _changed(code, one) & code.names(other) or _changed(code, other) & code.names(one):
                yield swap(code, one, one, other)


def _first(code: Code, statement: Node) -> bool:
    """Whether a name gets its first value here: any other order would only crash."""
    node = next(iter(statement.parts()), None)
    left = node.child("left") if node is not None and node.kind in code.syntax.assignments else None
    if node is None or left is None or left.kind not in code.syntax.names:
        return False
    return not code.bound_before(node, left)


def _changed(code: Code, statement: Node) -> set[str]:
    """Names that a statement assigns, or whose methods it calls as a statement."""
    words = code.syntax
    found: set[str] = set()
    for node in statement.walk():
        if node.kind in words.assignments | words.augmented | {"update_expression", "inc_statement", "dec_statement"}:
            left = node.child("left", "argument") or next(iter(node.parts()), None)
            found |= code.names(left) if left is not None else set()
        elif node.kind in words.calls and node.parent is not None and node.parent.kind in words.statements:
            called = node.child("object", "function")
            inner = called.child("object", "operand", "value", "argument") if called is not None else None
            found |= code.names(inner) if inner is not None else set()
    return found
