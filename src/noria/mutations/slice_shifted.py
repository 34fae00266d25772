"""An element is taken, or a part is cut, one place beside."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")

#: Names that count; what else stands in brackets may be a key.
_COUNTS = re.compile(r"(?:[ijkn]|idx|index|pos|at|start|end|lo|hi|low|high|mid)\d?$")


def changes(code: Code) -> Iterator[Change]:
    """Places in subscripts that are numbers or names, and the bounds of slices; a bound may be missing altogether."""
    words = code.syntax
    for node in code.of(words.subscripts):
        place = node.child("subscript", "index") or next(iter(node.parts()[1:]), None)
        if place is not None and place.kind == "subscript_argument_list":
            place = next(iter(place.parts()), None)
        if place is None or not place.live:
            continue
        if place.kind == "slice":
            yield from _bounds(code, place)
        elif node.parent is not None and node.parent.kind not in words.assignments | words.augmented | {
            "expression_list"
        }:
            yield from (Change(node, (replace(place, text),)) for text in _beside(code, place))
    for node in code.of(frozenset({"slice_expression"})):
        yield from _bounds(code, node)


def _bounds(code: Code, node: Node) -> Iterator[Change]:
    for part in node.parts():
        if node.kind == "slice_expression" and part.field not in {"start", "end"}:
            continue
        if part.kind not in code.syntax.integers or code.text(part) != "0":
            for text in _beside(code, part):
                yield Change(part, (replace(part, text),))
            if node.kind == "slice" and len(node.parts()) == 1:
                yield Change(part, (replace(part, ""),))


def _beside(code: Code, place: Node) -> list[str]:
    text = code.text(place)
    if place.kind in code.syntax.integers and text.isdigit():
        return ["1"] if text == "0" else [str(int(text) + 1), str(int(text) - 1)]
    if place.kind == "unary_operator" and text[0] == "-" and text[1:].isdigit():
        return [str(int(text) - 1), str(int(text) + 1)]
    sliced = place.parent is not None and place.parent.kind.startswith("slice")
    if place.kind in code.syntax.names and (sliced or (code.syntax.braces and _COUNTS.match(text))):
        return [f"{text} + 1", f"{text} - 1"]
    if place.kind in code.syntax.binaries and text.endswith((" + 1", " - 1")):
        return [text[:-4]]
    return []
