"""A source file as a tree of plain nodes: what tree-sitter parsed, walked once."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from noria.core.errors import UserError

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree


class Node:
    """A piece of syntax: bytes `start:end`, rows from 0.

    `kind` and `field` are the grammar's words; a token such as `+` has itself as its kind and is not `named`.
    `owner` is the place of the innermost target in `Code.targets`, -1 outside of all; `live`: it may be edited.
    """

    __slots__ = (
        "bad",
        "children",
        "end",
        "field",
        "kind",
        "last_row",
        "live",
        "named",
        "owner",
        "parent",
        "row",
        "start",
    )

    def __init__(self, kind: str, start: int, end: int, row: int, last_row: int, parent: Node | None) -> None:
        self.kind, self.start, self.end, self.row, self.last_row, self.parent = kind, start, end, row, last_row, parent
        self.named, self.bad, self.live, self.owner = True, False, False, -1
        self.field: str | None = None
        self.children: list[Node] = []

    def __repr__(self) -> str:
        return f"<{self.kind} {self.start}:{self.end}>"

    def child(self, *fields: str) -> Node | None:
        """The first child in one of these fields, tried in order."""
        for field in fields:
            for child in self.children:
                if child.field == field and child.kind != "comment":
                    return child
        return None

    def every(self, field: str) -> list[Node]:
        """All children in a field."""
        return [child for child in self.children if child.field == field]

    def parts(self) -> list[Node]:
        """The named children that are no comments."""
        return [child for child in self.children if child.named and "comment" not in child.kind]

    def first(self, *kinds: str) -> Node | None:
        """The first child of one of these kinds."""
        return next((child for child in self.children if child.kind in kinds), None)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, in source order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def above(self) -> Iterator[Node]:
        """The nodes around this one, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def index(self) -> int:
        """The place among its siblings."""
        return self.parent.children.index(self) if self.parent else 0


@lru_cache(maxsize=16)
def parser(grammar: str) -> Parser:
    """The parser of `package:function`.

    Raises:
        UserError: the package, or tree-sitter itself, is not installed.
    """
    package, _, function = grammar.partition(":")
    try:
        tree_sitter = importlib.import_module("tree_sitter")
        language = getattr(importlib.import_module(package), function)()
    except ModuleNotFoundError as fault:
        raise UserError(
            f"mutations need the package {fault.name!r}, which is missing - install it with `pip install 'noria[swe]'`"
        ) from fault
    found: Parser = tree_sitter.Parser(tree_sitter.Language(language))
    return found


def plain(tree: Tree) -> Node:
    """The nodes of a parsed tree."""
    cursor = tree.walk()
    top = _copy(cursor.node, None)
    parent = top
    if not cursor.goto_first_child():
        return top
    while True:
        node = _copy(cursor.node, parent)
        node.field = cursor.field_name
        parent.children.append(node)
        if cursor.goto_first_child():
            parent = node
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent() or parent.parent is None:
                return top
            parent = parent.parent


def _copy(raw: object, parent: Node | None) -> Node:
    node = Node(raw.type, raw.start_byte, raw.end_byte, raw.start_point[0], raw.end_point[0], parent)  # type: ignore[attr-defined]
    node.named = raw.is_named  # type: ignore[attr-defined]
    node.bad = raw.is_error or raw.is_missing  # type: ignore[attr-defined]
    return node


def faults(tree: Tree) -> int:
    """How many places the parser could not read."""
    if not tree.root_node.has_error:
        return 0
    found, stack = 0, [tree.root_node]
    while stack:
        node = stack.pop()
        found += node.is_error or node.is_missing
        stack.extend(child for child in node.children if child.has_error or child.is_missing)
    return found
