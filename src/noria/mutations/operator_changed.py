"""A calculation uses the wrong operator of its kind."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "OperationChange"

_OTHERS = {
    "+": ("-",), "-": ("+",), "*": ("+", "//", "/"), "/": ("*", "//"), "//": ("/", "%"), "%": ("//", "/"),
    "**": ("*",), "&": ("|",), "|": ("&",), "^": ("&",), "<<": (">>",), ">>": ("<<",), ">>>": (">>",), "??": ("||",),
}  # fmt: skip


def changes(code: Code) -> Iterator[Change]:
    """Each operator becomes those that it is taken for; not beside a text, where the other would only crash."""
    for found in code.binaries(*_OTHERS):
        if {found.left.kind, found.right.kind} & (code.syntax.strings | {"template_string", "concatenated_string"}):
            continue
        for other in _OTHERS[code.text(found.operator)]:
            if other != "//" or code.syntax.name == "python":
                yield Change(found.node, (replace(found.operator, other),))
