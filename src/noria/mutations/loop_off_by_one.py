"""A counting loop runs once too often, or once too little."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "LoopOffByOne"

_OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


def changes(code: Code) -> Iterator[Change]:
    """The condition of a `for`, the bounds of `range` in Python, `..` against `..=` in Rust."""
    if code.syntax.name == "python":
        yield from _ranges(code)
    for found in code.binaries(*_OTHER):
        around = found.node.parent
        if around is not None and around.kind in {"for_statement", "for_clause"}:
            yield Change(found.node, (replace(found.operator, _OTHER[code.text(found.operator)]),))
    for node in code.of(frozenset({"range_expression"})):
        dots = node.first("..", "..=")
        if dots is not None and dots.index() < len(node.children) - 1:
            yield Change(node, (replace(dots, "..=" if dots.kind == ".." else ".."),))


def _ranges(code: Code) -> Iterator[Change]:
    for call in code.calls():
        if code.text(call.name) != "range" or not 1 <= len(call.arguments) <= 3:
            continue
        stop = call.arguments[min(1, len(call.arguments) - 1)]
        text = code.text(stop)
        if stop.kind in {"integer", "unary_operator", "list_splat", "conditional_expression", "lambda"}:
            continue
        for undone, sign in ((" + 1", "-"), (" - 1", "+")):
            yield Change(call.node, (replace(stop, text[:-4] if text.endswith(undone) else f"{text} {sign} 1"),))
