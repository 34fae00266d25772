"""An assignment is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import remove, statement

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
        if node.kind in words.augmented or left.kind not in words.names or code.bound_before(node, left):
            yield Change(node, (remove(code, found),))
