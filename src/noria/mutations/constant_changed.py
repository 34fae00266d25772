"""A number is wrong: by one, or zero, or of the other sign."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "OperationChangeConstants"


def changes(code: Code) -> Iterator[Change]:
    """Plain decimal numbers one more and one less; numbers with a point doubled. Messages are left alone."""
    for node in code.of(code.syntax.integers | code.syntax.floats):
        text = code.text(node)
        if node.field in {"subscript", "index"} or code.in_message(node) or _indexes(node):
            continue  # `slice_shifted` has those
        if node.parent is not None and node.parent.kind in code.syntax.defaults:
            continue  # `default_changed` has those
        if text.isascii() and text.isdigit() and (text == "0" or text[0] != "0") and len(text) < 10:
            yield Change(node, (replace(node, str(int(text) + 1)),))
            if int(text) > 0:
                yield Change(node, (replace(node, str(int(text) - 1)),))
        elif text.replace(".", "", 1).isdigit() and text.count(".") == 1 and 0 < float(text) < 1e6:
            yield Change(node, (replace(node, repr(float(text) * 2)),))


def _indexes(node: Node) -> bool:
    parent = node.parent
    return parent is not None and (parent.kind in {"slice", "slice_expression"} or parent.field == "subscript")
