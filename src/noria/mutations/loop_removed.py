"""A loop is forgotten, or runs once."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import inside, remove, replace, statement

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "RemoveLoop"


def changes(code: Code) -> Iterator[Change]:
    """The whole loop goes; a `while` without `break` or `continue` becomes an `if` or plain statements."""
    words = code.syntax
    for node in code.of(words.fors | words.whiles):
        whole = statement(code, node) or (node if code.is_statement(node) else None)
        if whole is None or (words.name == "rust" and whole is node):
            continue
        yield Change(node, (remove(code, whole),))
        body, first = node.child("body"), node.children[0]
        if node.kind not in words.whiles or body is None or node.child("condition") is None:
            continue
        kinds = {found.kind for found in body.walk()}
        if first.kind == "while" and not kinds & (words.breaks | words.continues) and node.child("alternative") is None:
            yield Change(node, (replace(first, "if"),))
        elif first.kind == "do" and not kinds & (words.breaks | words.continues):
            text = inside(code, node, body)
            if text is not None:
                yield Change(node, (replace(node, text),))
