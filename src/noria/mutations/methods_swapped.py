"""Two methods of a class exchange their bodies.

Only their order in the file, as elsewhere, would change nothing in most languages; so what they do is exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from noria.mutations._code import Change, Code
from noria.mutations._edits import swap
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "cpp")
SMITH = "ClassShuffleMethods"


def changes(code: Code) -> Iterator[Change]:
    """One change per two methods of one class whose parameters and result are written the same."""
    groups: dict[tuple[str, int, str], list[Node]] = {}
    for target, node in zip(code.targets, code.nodes, strict=True):
        body = node.child("body")
        if target.kind == "method" and body is not None and body.parts():
            owner = target.name.rpartition(".")[0]
            signature = code.source[_after_name(node) : body.start].decode().strip()
            groups.setdefault((owner, node.parent.start if node.parent else 0, signature), []).append(node)
    for group in groups.values():
        for one, other in combinations(group, 2):
            first, second = one.child("body"), other.child("body")
            if first is not None and second is not None and code.text(first) != code.text(second):
                yield swap(code, one, first, second)


def _after_name(node: Node) -> int:
    while node.child("parameters") is None and (inner := node.child("declarator")) is not None:
        node = inner
    parameters = node.child("parameters")
    return parameters.start if parameters is not None else node.start
