"""Nobody looks any more whether there is a value."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import inside, keep, remove, replace, statement

LANGUAGES = ("python", "javascript", "typescript", "go", "java", "c", "cpp")
SMITH = "RemoveNullCheck"


def changes(code: Code) -> Iterator[Change]:
    """A test against null goes out of a condition; an `if` that only asks for it goes, or keeps what it guards."""
    words = code.syntax
    for found in code.binaries(*words.conjunctions):
        if code.asks_null(found.left):
            yield keep(code, found.node, found.right)
        if code.asks_null(found.right):
            yield keep(code, found.node, found.left)
    for branch in code.branches():
        whole = statement(code, branch.node) or (branch.node if code.is_statement(branch.node) else None)
        if whole is None or branch.chained or branch.otherwise is not None or branch.node.child("initializer"):
            continue
        if code.asks_null(branch.condition, "is", "==", "==="):
            yield Change(branch.node, (remove(code, whole),))
        elif code.asks_null(branch.condition, "is not", "!=", "!=="):
            text = inside(code, whole, branch.then)
            if text is not None:
                yield Change(branch.node, (replace(whole, text),))
    for node in code.of(frozenset({"optional_chain"})):
        member = node.parent
        if member is not None and member.kind == "member_expression":
            yield Change(node, (replace(node, "."),))
