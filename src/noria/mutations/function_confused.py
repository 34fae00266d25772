"""A function is taken for its counterpart."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """Calls of a name that the language's table pairs with another: `min` and `max`, `find` and `rfind`."""
    others: dict[str, list[str]] = {}
    for one, other in code.syntax.pairs:
        others.setdefault(one, []).append(other)
        others.setdefault(other, []).append(one)
    for call in code.calls():
        if not code.in_message(call.node):
            for other in dict.fromkeys(others.get(code.text(call.name), ())):
                yield Change(call.node, (replace(call.name, other),))
