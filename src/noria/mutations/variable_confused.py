"""A variable is taken for another one that is at hand."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")

_SELF = frozenset({"self", "cls", "this", "_", "err"})
_DECLARES = frozenset({
    "parameter_declaration", "formal_parameter", "parameter", "typed_parameter", "typed_default_parameter",
    "optional_parameter_declaration", "required_parameter", "optional_parameter", "declaration",
    "local_variable_declaration",
})  # fmt: skip


def changes(code: Code) -> Iterator[Change]:
    """Where a name is read, the two names of the same function that were bound last before it.

    Where types are written, both have the same one, and names without a written type are left.
    """
    words = code.syntax
    known: dict[int, list[tuple[int, str, str]]] = {}
    for node in code.of(words.names):
        if node.owner < 0 or not _read(code, node) or code.in_message(node):
            continue
        if node.owner not in known:
            known[node.owner] = _bound(code, code.nodes[node.owner])
        name = code.text(node)
        before = [(other, sort) for at, other, sort in known[node.owner] if at < node.start]
        sorts = [sort for other, sort in before if other == name]
        if not sorts:
            continue
        others = list(dict.fromkeys(other for other, sort in reversed(before) if other != name and sort == sorts[-1]))
        beside = {code.text(part) for part in node.parent.children} if node.parent is not None else set()
        yield from (Change(node, (replace(node, other),)) for other in others[:2] if other not in beside)


def _read(code: Code, node: Node) -> bool:
    parent = node.parent
    if parent is None or parent.kind in _DECLARES | code.syntax.parameters | code.syntax.defaults:
        return False
    kinds = code.syntax.arguments | code.syntax.binaries | code.syntax.returns | {"expression_list"}
    if parent.kind == "expression_list" and (parent.field == "left" or parent.parent is None):
        return False
    return parent.kind in kinds or node.field in {"right", "value", "index", "subscript", "condition"}


def _bound(code: Code, function: Node) -> list[tuple[int, str, str]]:
    """Parameters and local variables: where they are bound, their names and their written types."""
    words = code.syntax
    found: list[tuple[int, str, str]] = []
    for node in function.walk():
        if node.owner != function.owner and node is not function:
            continue
        if node.kind in _DECLARES:
            written = node.child("type")
            sort = code.text(written) if written is not None else ""
            for name in _declared(code, node, written):
                found.append((name.end, code.text(name), sort if words.typed else ""))
        elif not words.typed and node.kind in words.names and node.parent is not None and node.live:
            around = node.parent
            if around.kind in words.parameters:
                found.append((node.end, code.text(node), ""))
            elif node.field in {"left", "name"} and around.kind in _BINDERS:
                found.append((around.end, code.text(node), ""))
    names = sorted(item for item in found if item[1] not in _SELF)
    return [item for item in names if item[2] or not words.typed]


_BINDERS = frozenset({"assignment", "default_parameter", "variable_declarator", "assignment_pattern"})


def _declared(code: Code, node: Node, written: Node | None) -> list[Node]:
    """The names that a declaration binds; pointers and arrays are of another type than their elements."""
    names = []
    for child in node.children:
        if child is written:
            continue
        if child.kind in {"init_declarator", "variable_declarator"}:
            child = child.child("declarator", "name") or child
        if child.kind == "identifier" and child.field in {"name", "declarator", "pattern", None}:
            names.append(child)
    return names
