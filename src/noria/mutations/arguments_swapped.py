"""Two arguments of a call stand the wrong way round."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from noria.mutations._code import Change, Code
from noria.mutations._edits import swap
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "FunctionArgumentSwap"

_COMMUTE = frozenset({"min", "max", "fmin", "fmax", "gcd", "isclose", "Min", "Max", "hypot", "zip"})
_KEPT = frozenset(
    {"keyword_argument", "list_splat", "dictionary_splat", "spread_element", "lambda", "generator_expression"}
)


def changes(code: Code) -> Iterator[Change]:
    """Neighbours, positional; where the compiler looks at types, of the same kind of expression only."""
    for call in code.calls():
        if code.text(call.name) in _COMMUTE or code.in_message(call.node):
            continue
        for one, other in pairwise(call.arguments):
            if one.live and other.live and _alike(code, one, other) and code.text(one) != code.text(other):
                yield swap(code, call.node, one, other)


def _alike(code: Code, one: Node, other: Node) -> bool:
    if {one.kind, other.kind} & _KEPT:
        return False
    if code.syntax.typed:
        return one.kind == other.kind
    return "function" not in one.kind and "function" not in other.kind
