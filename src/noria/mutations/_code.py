"""A source file as operators see it: its targets, and its parts by what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from noria.core.code import Target
from noria.mutations._node import Node, faults, parser, plain
from noria.mutations._syntax import syntax
from noria.mutations._syntax.base import Kinds, Syntax

#: Bytes from, to (excluded), and what they become.
Piece = tuple[int, int, str]


class Change(NamedTuple):
    """One way to break the code: where, which decides the target, and the edits."""

    at: Node
    pieces: tuple[Piece, ...]


class Binary(NamedTuple):
    """`left operator right`."""

    node: Node
    left: Node
    operator: Node
    right: Node


class Branch(NamedTuple):
    """`if`: the bare condition, what follows it, and the last `else` if it follows at once.

    `chained` says that an `else if` follows, or that this is one.
    """

    node: Node
    condition: Node
    then: Node
    otherwise: Node | None
    chained: bool


class Call(NamedTuple):
    """A call: the node of the bare name, and the arguments."""

    node: Node
    name: Node
    arguments: list[Node]


@dataclass(frozen=True, eq=False)
class Code:
    """One parsed file. `targets[i]` is at `nodes[i]`; `kinds` has the nodes that may be edited, in source order."""

    syntax: Syntax
    path: str
    source: bytes
    root: Node
    faults: int
    targets: list[Target]
    nodes: list[Node]
    kinds: dict[str, list[Node]]

    def around(self, target: int) -> tuple[int, int]:
        """Whole lines around a target that can be parsed alone: its outermost function, or what is at the top.

        Only where indentation makes blocks can a method be read without its class.
        """
        node = self.nodes[target]
        for outer in [node, *node.above()]:
            if outer.parent is None:
                break
            node = outer if self.syntax.braces or self.targets[outer.owner].kind != "class" else node
        start = self.source.rfind(b"\n", 0, node.start) + 1
        end = self.source.find(b"\n", node.end)
        return start, end + 1 if end >= 0 else len(self.source)

    def broken(self, target: int) -> bool:
        """Whether the parser could not read all of a target."""
        return self.faults > 0 and any(node.bad for node in self.nodes[target].walk())

    def text(self, node: Node) -> str:
        """The source of a node."""
        return self.source[node.start : node.end].decode()

    def of(self, kinds: Kinds) -> Iterator[Node]:
        """The nodes of these kinds that may be edited."""
        for kind in sorted(kinds):
            yield from self.kinds.get(kind, ())

    def binaries(self, *operators: str) -> Iterator[Binary]:
        """Expressions with two operands, with one of these operators where any are named."""
        for node in self.of(self.syntax.binaries):
            parts = node.children
            if len(parts) == 3 and (not operators or self.text(parts[1]) in operators):
                yield Binary(node, *parts)

    def branches(self) -> Iterator[Branch]:
        """All `if`s."""
        for node in self.of(self.syntax.ifs):
            condition, then = node.child("condition"), node.child("consequence")
            if condition is None or then is None:
                continue
            following = node.every("alternative")
            last = following[-1] if following else None
            otherwise = _else_body(last) if last is not None else None
            chained = node.kind == "elif_clause" or len(following) > 1 or _is_else_if(node, self.syntax)
            if otherwise is not None and otherwise.kind in self.syntax.ifs:
                chained, otherwise = True, None
            yield Branch(node, bare(condition), then, otherwise, chained)

    def calls(self) -> Iterator[Call]:
        """All calls of a name or of an attribute."""
        for node in self.of(self.syntax.calls):
            arguments = node.first(*self.syntax.arguments)
            called = node.child("name", "function")
            if arguments is None or called is None or called.kind in self.syntax.calls:
                continue
            while (inner := called.child("attribute", "property", "field", "name")) is not None:
                called = inner
            yield Call(node, called, arguments.parts())

    def statements(self) -> Iterator[list[Node]]:
        """The statements of each block that belongs to a target, in order."""
        for block in self.of(self.syntax.blocks):
            if block.owner >= 0:
                yield block.parts()

    def names(self, node: Node) -> set[str]:
        """The names that a piece of code mentions."""
        return {self.text(found) for found in node.walk() if found.kind in self.syntax.names}

    def bound_before(self, node: Node, name: Node) -> bool:
        """Whether the name that `node` assigns has a value already: a parameter's, or one from above."""
        if self.syntax.braces:
            return "declaration" not in node.kind
        if node.owner < 0:
            return False
        text = self.text(name)
        scope = self.nodes[node.owner]
        for other in scope.walk():
            if other.start >= node.start:
                return False
            around = other.parent
            if other.kind not in self.syntax.names or around is None or around is scope or self.text(other) != text:
                continue
            if other.field in {"left", "name", "pattern"} or around.kind in self.syntax.parameters:
                return True
        return False

    def asks_null(self, node: Node, *operators: str) -> bool:
        """Whether an expression compares something with null, by one of `operators` where any are named."""
        if node.kind not in self.syntax.binaries or len(node.children) != 3:
            return False
        left, operator, right = node.children
        if operators and self.text(operator) not in operators:
            return False
        return (right.kind in self.syntax.nulls or left.kind in self.syntax.nulls) and operator.kind != "in"

    def is_statement(self, node: Node) -> bool:
        """Whether a node stands in a block by itself."""
        return node.parent is not None and node.parent.kind in self.syntax.blocks

    def in_message(self, node: Node) -> bool:
        """Whether a node is only part of what an exception, an assertion or a log says."""
        for around in node.above():
            if around.kind in self.syntax.raises or around.kind in {"assert_statement", "macro_invocation"}:
                return True
            if around.kind in self.syntax.calls and re.match(
                rb"(?:[\w.]*\blog(?:ger|ging)?|warnings|console|System\.(?:out|err)|print\w*|panic|fmt\.Errorf|f?printf)\b",
                self.source[around.start : around.end],
            ):
                return True
            if around.kind in self.syntax.statements:
                return False
        return False


def bare(condition: Node) -> Node:
    """A condition without its parentheses."""
    while condition.kind in {"parenthesized_expression", "condition_clause"}:
        inner = condition.child("value") or next(iter(condition.parts()), None)
        if inner is None:
            return condition
        condition = inner
    return condition


def _else_body(alternative: Node) -> Node | None:
    if alternative.kind == "elif_clause":
        return None
    if alternative.kind == "else_clause":
        return alternative.child("body") or next(iter(alternative.parts()), None)
    return alternative


def _is_else_if(node: Node, words: Syntax) -> bool:
    parent = node.parent
    if parent is None:
        return False
    return parent.kind == "else_clause" or (parent.kind in words.ifs and node.field == "alternative")


@lru_cache(maxsize=8)
def read(language: str, path: str, source: bytes) -> Code:
    """Parse a file.

    Raises:
        UserError: unknown language, missing package.
        UnicodeDecodeError: `source` is not UTF-8.
    """
    source.decode()
    words = syntax(language, path)
    tree = parser(words.grammar).parse(source)
    code = Code(words, path, source, plain(tree), faults(tree), [], [], {})
    _index(code)
    return code


def _index(code: Code) -> None:
    words = code.syntax
    decisions = words.ifs | words.fors | words.whiles | words.ternaries | words.cases | words.catches
    found: list[tuple[Node, str, Literal["function", "method", "class"], int]] = []
    counts: list[int] = []
    stack = [(code.root, -1)]
    while stack:
        node, owner = stack.pop()
        if node.kind in words.frozen or (node.named and words.cold(node, code.source)):
            continue
        named = _named(code, node)
        if named:
            name, kind = _qualified(code, node, named, found[owner] if owner >= 0 else None)
            found.append((node, name, kind, owner))
            counts.append(1)
            owner = len(found) - 1
        node.live, node.owner = True, owner
        code.kinds.setdefault(node.kind, []).append(node)
        if (node.kind in decisions and node.named) or _is_conjunction(node, words):
            around = owner
            while around >= 0:
                counts[around] += 1
                around = found[around][3]
        stack.extend((child, owner) for child in reversed(node.children))
    for (node, name, kind, _), count in zip(found, counts, strict=True):
        code.nodes.append(node)
        code.targets.append(Target(code.path, name, kind, node.start, node.end, node.row + 1, node.last_row + 1, count))


def _is_conjunction(node: Node, words: Syntax) -> bool:
    return node.kind in words.conjunctions and node.parent is not None and node.parent.kind in words.binaries


def _named(code: Code, node: Node) -> str:
    """The name of a function or class that can be a target, or nothing."""
    words = code.syntax
    if node.kind in words.classes:
        name = node.child("name", "type")
        return code.text(name).partition("<")[0] if name is not None and node.child("body") is not None else ""
    if node.kind in words.functions:
        name = node.child("name")
        walk = node
        while name is None:
            inner = walk.child("declarator")
            if inner is None or inner.kind in {"identifier", "field_identifier", "qualified_identifier"}:
                name = inner
                break
            walk = inner
        return code.text(name) if name is not None and node.child("body") is not None else ""
    if node.kind in words.closures and node.parent is not None and node.field in {"value", "right"}:
        name = node.parent.child("name", "left", "key", "property")
        if name is not None and name.kind.endswith(("identifier", "expression")) and "\n" not in code.text(name):
            return code.text(name)
    return ""


def _qualified(
    code: Code, node: Node, name: str, around: tuple[Node, str, str, int] | None
) -> tuple[str, Literal["function", "method", "class"]]:
    words = code.syntax
    kind: Literal["function", "method", "class"] = "class" if node.kind in words.classes else "function"
    name = name.replace("::", ".")
    receiver = node.child("receiver")
    if receiver is not None:
        owner = re.findall(r"\w+", code.text(receiver).partition("[")[0])
        return f"{owner[-1]}.{name}" if owner else name, "method"
    if around is not None:
        if kind == "function" and around[2] == "class":
            kind = "method"
        name = f"{around[1]}.{name}"
    elif kind == "function" and "qualified_identifier" in {n.kind for n in node.walk() if n.field == "declarator"}:
        kind = "method"
    return name, kind
