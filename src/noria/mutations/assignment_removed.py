"""An assignment is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import remove, statement
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "RemoveAssign"


def changes(code: Code) -> Iterator[Change]:
    """Assignments to what has a value without them: attributes, elements, and names that were assigned before."""
    words = code.syntax
    for node in code.of(words.assignments | words.augmented):
        found = statement(code, node) or (node if code.is_statement(node) else None)
        left = node.child("left")
        if found is None or left is None or not found.live:
            continue
        if node.kind in words.augmented or left.kind not in words.names or _earlier(code, node, left):
            yield Change(node, (remove(code, found),))


def _earlier(code: Code, node: Node, left: Node) -> bool:
    """Whether the name is bound before: by its function's parameters, or by another statement above."""
    if code.syntax.braces and "declaration" not in node.kind:
        return True
    scope = code.nodes[node.owner]
    name = code.text(left)
    for other in scope.walk():
        if other.start >= node.start:
            return False
        if other.kind in code.syntax.names and code.text(other) == name and other.parent is not None:
            binds = other.field in {"left", "name", "pattern"} or other.parent.kind in code.syntax.parameters
            if binds and other.parent is not scope:
                return True
    return False
