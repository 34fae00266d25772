"""A value is used as it came: not converted, copied or trimmed."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import keep

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """`int(x)` becomes `x`, `x.trim()` too; which names, the language's table says."""
    words = code.syntax
    for call in code.calls():
        if code.text(call.name) not in words.wrappers or code.in_message(call.node):
            continue
        if len(call.arguments) == 1 and call.arguments[0].kind not in {"generator_expression", "list_splat"}:
            if call.arguments[0].kind not in words.strings | words.integers | {"keyword_argument"}:
                yield keep(code, call.node, call.arguments[0])
        elif not call.arguments:
            holder = call.node if words.name == "java" else call.name.parent
            inner = holder.child("object", "value", "operand") if holder is not None else None
            if inner is not None and inner.start == call.node.start and call.node.kind != "new_expression":
                yield keep(code, call.node, inner)
