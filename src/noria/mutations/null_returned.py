"""A function returns nothing where it had something."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "rust", "java", "c")
SMITH = "ReturnNull"

_VALUES = frozenset({"integral_type", "floating_point_type", "boolean_type", "void_type"})


def changes(code: Code) -> Iterator[Change]:
    """Results that are objects or pointers; `Some` of something in Rust. Those that are null already are left."""
    words = code.syntax
    if words.name == "rust":
        yield from _some(code)
        return
    for node in code.of(words.returns):
        value = next(iter(node.parts()), None)
        if value is not None and value.kind not in words.nulls and node.owner >= 0 and _fits(code, node):
            yield Change(node, (replace(value, words.null),))


def _some(code: Code) -> Iterator[Change]:
    for call in code.calls():
        around = call.node.parent
        if code.text(call.name) == "Some" and around is not None and around.kind in {"block", "return_expression"}:
            yield Change(call.node, (replace(call.node, "None"),))


def _fits(code: Code, node: Node) -> bool:
    """Whether the function's type, where it has to state one, has a null."""
    if code.syntax.name not in {"java", "c"}:
        return True
    function = code.nodes[node.owner]
    result, declarator = function.child("type"), function.child("declarator")
    if code.syntax.name == "c":
        return declarator is not None and declarator.kind == "pointer_declarator"
    return result is not None and result.kind not in _VALUES
