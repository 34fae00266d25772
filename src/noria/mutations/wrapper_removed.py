"""A `try` or a `with` around some statements is gone."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import inside, replace

LANGUAGES = ("python", "javascript", "typescript", "java", "cpp")
SMITH = "RemoveWrapper, RemoveTryCatch"


def changes(code: Code) -> Iterator[Change]:
    """The statements inside stay, one level out. A `with` whose name they use is left, and so are resources."""
    for node in code.of(code.syntax.tries | code.syntax.withs):
        body = node.child("body")
        if body is None or not code.is_statement(node):
            continue
        bound = {
            code.text(name)
            for clause in node.children
            if clause is not body and clause.field != "handler"
            for found in clause.walk()
            if found.kind in {"as_pattern_target", "resource"}
            for name in found.walk()
            if name.kind in code.syntax.names
        }
        text = inside(code, node, body)
        if text is not None and not (node.kind in code.syntax.withs and bound & code.names(body)):
            yield Change(node, (replace(node, text),))
