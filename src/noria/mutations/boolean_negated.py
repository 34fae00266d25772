"""A truth value is the other one."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "BooleanNegate"

_SIMPLE = (
    "identifier", "call", "call_expression", "attribute", "member_expression", "selector_expression",
    "field_expression", "method_invocation", "field_access", "subscript", "parenthesized_expression",
)  # fmt: skip


def changes(code: Code) -> Iterator[Change]:
    """Literals, and conditions without an operator of their own (`comparison_flipped`, `not_dropped` have those).

    A condition with an `else` is left: `branches_swapped` makes the same program of it.
    """
    words = code.syntax
    true, false = words.booleans
    for node in code.of(frozenset({"true", "false", "boolean_literal"})):
        defaults = node.parent is not None and node.parent.kind in words.defaults
        if node.named and not defaults and not code.in_message(node) and not _endless(node, words.whiles):
            yield Change(node, (replace(node, false if code.text(node) == true else true),))
    for branch in code.branches():
        condition = branch.condition
        if condition.kind in _SIMPLE and condition.live and (branch.otherwise is None or branch.chained):
            pattern = "not {}" if words.conjunctions[0] == "and" else "!{}"
            yield Change(branch.node, (replace(condition, pattern.format(code.text(condition))),))


def _endless(node: Node, loops: frozenset[str]) -> bool:
    """Whether this is what `while true` says: the loop would only never run."""
    parent = node.parent
    while parent is not None and parent.kind == "parenthesized_expression":
        parent = parent.parent
    return parent is not None and parent.kind in loops
