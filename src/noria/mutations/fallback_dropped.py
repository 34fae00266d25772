"""There is no longer a value for when there is none."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import keep, replace

LANGUAGES = ("python", "javascript", "typescript", "rust", "java")

_TWO = {"get": "get", "pop": "pop", "setdefault": "get", "getOrDefault": "get"}


def changes(code: Code) -> Iterator[Change]:
    """The second argument of a dictionary's `get` and its kin, `unwrap_or`, and what follows `??`."""
    for call in code.calls():
        name, given = code.text(call.name), call.arguments
        if call.name.parent is call.node and "object" not in {child.field for child in call.node.children}:
            continue
        if name in _TWO and len(given) == 2 and "keyword_argument" not in {given[0].kind, given[1].kind}:
            if code.text(given[1]) == code.syntax.null:
                continue
            pieces = [(given[0].end, given[1].end, "")]
            if _TWO[name] != name:
                pieces.append(replace(call.name, _TWO[name]))
            yield Change(call.node, tuple(pieces))
        elif name == "unwrap_or" and len(given) == 1:
            yield Change(call.node, (replace(call.name, "unwrap_or_default"), replace(given[0], "")))
    for found in code.binaries("??"):
        yield keep(code, found.node, found.left)
