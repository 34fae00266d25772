"""A class loses one of its methods."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import remove

LANGUAGES = ("python", "javascript", "typescript", "java", "cpp")
SMITH = "ClassRemoveFuncs"


def changes(code: Code) -> Iterator[Change]:
    """One change per method of a class with several members, with its decorators."""
    for target, node in zip(code.targets, code.nodes, strict=True):
        whole = node.parent if node.parent is not None and node.parent.kind == "decorated_definition" else node
        body = whole.parent
        if target.kind != "method" or body is None or body.parent is None or len(body.parts()) < 2:
            continue
        if body.parent.kind in code.syntax.classes and node.live:
            yield Change(node, (remove(code, whole),))
