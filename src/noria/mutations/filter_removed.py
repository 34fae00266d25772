"""Elements that should be left out are not."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import keep

LANGUAGES = ("python", "javascript", "typescript", "rust", "java")


def changes(code: Code) -> Iterator[Change]:
    """The `if` of a comprehension, and `.filter(…)` in a chain of calls."""
    for node in code.of(frozenset({"if_clause"})):
        start = node.start
        while code.source[start - 1 : start].isspace():
            start -= 1
        yield Change(node, ((start, node.end, ""),))
    for call in code.calls():
        holder = call.node if code.syntax.name == "java" else call.name.parent
        inner = holder.child("object", "value") if holder is not None else None
        if (
            code.text(call.name) == "filter"
            and len(call.arguments) == 1
            and inner is not None
            and inner.start == call.node.start
        ):
            yield keep(code, call.node, inner)
