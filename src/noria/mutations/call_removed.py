"""Something that should be done is not."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import remove, statement
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """Statements that are only a call. What is written to a log is left alone."""
    for call in code.calls():
        found = statement(code, call.node)
        if found is not None and found is not call.node and not code.in_message(call.node) and not _logs(code, found):
            yield Change(call.node, (remove(code, found),))


def _logs(code: Code, node: Node) -> bool:
    text = code.source[node.start : node.end]
    return text.startswith(
        (b"super();", b"log", b"print", b"console.", b"warnings.", b"System.out", b"self.log", b"fmt.Print")
    )
