"""A loop ends where it should go on, or goes on where it should end."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "LoopBreakContinueSwap"


def changes(code: Code) -> Iterator[Change]:
    """Both ways where the loop counts; only `continue` to `break` where it would run forever otherwise.

    A `continue` that ends the body of its loop is left: it does nothing. So is a `break` of a `switch`.
    """
    words = code.syntax
    for node in code.of(words.breaks | words.continues):
        around = next((n for n in node.above() if n.kind in words.fors | words.whiles or _switches(n)), None)
        if around is None or _switches(around):
            continue
        keyword = node.children[0]
        if node.kind in words.continues:
            yield Change(node, (replace(keyword, "break"),))
        elif around.kind in words.fors:
            yield Change(node, (replace(keyword, "continue"),))


def _switches(node: Node) -> bool:
    return "switch" in node.kind or node.kind == "select_statement" or node.kind == "loop_expression"
